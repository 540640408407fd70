//! Entry point: where keeper listens comes from the environment, the exit code says how it ended.

use std::process::ExitCode;

use sandyard_agent::AgentEnd;
use sandyard_protocol::{AGENT_AGAIN, AGENT_SOCKET_VARIABLE};

/// As `EX_SOFTWARE`: neither done nor given up.
const SOFTWARE: u8 = 70;

fn main() -> ExitCode {
    let Some(socket) = std::env::var_os(AGENT_SOCKET_VARIABLE) else {
        return tell(&format!("{AGENT_SOCKET_VARIABLE} does not say where keeper listens"));
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tell(&format!("start the event loop: {error}")),
    };
    match runtime.block_on(sandyard_agent::run(socket.into())) {
        AgentEnd::Finished => ExitCode::SUCCESS,
        AgentEnd::GaveUp => ExitCode::FAILURE,
        AgentEnd::Again => ExitCode::from(AGENT_AGAIN),
    }
}

fn tell(what: &str) -> ExitCode {
    use std::io::Write as _;
    // A process without standard error has nobody to tell.
    let _ = writeln!(std::io::stderr(), "sandyard-agent: {what}");
    ExitCode::from(SOFTWARE)
}
