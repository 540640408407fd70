//! The host's end of a machine's control line. Each request has a connection of its own, so servers share no
//! state.

use std::io;
use std::path::Path;
use std::time::Duration;

use sandyard_protocol::{ControlRequest, ControlWish, JobUsage};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::sockets;
use crate::host::vm::machine_control;

/// Longest wait for an answer of an emulated machine on a busy host. Without the answer the reason of a killed job is unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Asks for the usage of the job.
pub(super) async fn usage(folder: &Path) -> io::Result<JobUsage> {
    let asked =
        async { machine_control::usage(&mut sockets::connect(folder, sockets::CONTROL).await?).await };
    timeout(ANSWER_TIMEOUT, asked).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Orders the machine to end. The caller must keep the connection until it has.
pub(super) async fn power_off(folder: &Path) -> io::Result<UnixStream> {
    let mut stream = sockets::connect(folder, sockets::CONTROL).await?;
    machine_control::say(&mut stream, ControlRequest { number: 0, wish: ControlWish::PowerOff }).await?;
    Ok(stream)
}
