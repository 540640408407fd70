//! What the loop of a task asks of the keeper of its machine, over a socket in the sandbox.

use serde::{Deserialize, Serialize};

use crate::Request;

/// The first message on a connection that the loop opens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRequest {
    /// A tool: answered by keeper as if the host had asked, and the connection carries the same. The job's own life
    /// (`BeginJob`, `EndJob`, `PauseJob`, `ResumeJob`) is the host's, and refused.
    Tool(Request),
    /// The desk on the host. Keeper copies bytes both ways, unread, once there is a link; the connection ends with it.
    Desk,
    /// A call of a model on the host, as `Desk`.
    Model,
}

/// The program of the loop. As the first argument of a process it means the one that the driver gave the machine, whatever the
/// image holds.
pub const AGENT_PROGRAM: &str = "sandyard-agent";
/// Where the loop finds keeper's socket.
pub const AGENT_SOCKET_VARIABLE: &str = "SANDYARD_AGENT_SOCKET";
/// The exit code of a loop that must be started again, as `EX_TEMPFAIL`.
pub const AGENT_AGAIN: u8 = 75;
