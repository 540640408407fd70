//! Requests of the agent, the program that works on a task, to the keeper of its machine. They go over a socket in the sandbox.

use serde::{Deserialize, Serialize};

use crate::Request;

/// The first message on a connection that the agent opens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRequest {
    /// A request that keeper serves as if the host had sent it. Requests about the job itself (`BeginJob`, `EndJob`,
    /// `PauseJob`, `ResumeJob`) belong to the host and are rejected.
    Tool(Request),
    /// The journal service on the host. Keeper copies bytes in both directions without reading them. The connection starts once there is
    /// a link and ends with it.
    Desk,
    /// A model call. Keeper copies bytes as for the journal service.
    Model,
}

/// The program of the agent. As the first argument of a process this name means the program that the driver gave the machine, even if
/// the image has one of the same name.
pub const AGENT_PROGRAM: &str = "sandyard-agent";
/// The environment variable that holds the path of keeper's socket.
pub const AGENT_SOCKET_VARIABLE: &str = "SANDYARD_AGENT_SOCKET";
/// The exit code of an agent that must be restarted, as `EX_TEMPFAIL`.
pub const AGENT_AGAIN: u8 = 75;
