//! Entry point. The environment names keeper's socket; the exit code says how the loop ended.

use std::process::ExitCode;

use sandyard_agent::AgentEnd;
use sandyard_protocol::{AGENT_AGAIN, AGENT_SOCKET_VARIABLE};

/// `EX_SOFTWARE`: the task is neither done nor given up.
const SOFTWARE: u8 = 70;

fn main() -> ExitCode {
    let Some(socket) = std::env::var_os(AGENT_SOCKET_VARIABLE) else {
        return fail(&format!("{AGENT_SOCKET_VARIABLE} does not say where keeper listens"));
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("start the event loop: {error}")),
    };
    match runtime.block_on(sandyard_agent::run(socket.into())) {
        AgentEnd::Finished => ExitCode::SUCCESS,
        AgentEnd::GaveUp => ExitCode::FAILURE,
        AgentEnd::Again => ExitCode::from(AGENT_AGAIN),
    }
}

fn fail(what: &str) -> ExitCode {
    use std::io::Write as _;
    // Without standard error there is no place for the message; the exit code remains.
    let _ = writeln!(std::io::stderr(), "sandyard-agent: {what}");
    ExitCode::from(SOFTWARE)
}
