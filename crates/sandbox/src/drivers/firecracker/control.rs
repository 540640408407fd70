//! Requests to the first process of a machine, over a vsock connection of the host. Firecracker gets the
//! guest's port, confirms the connection, and then carries lines.

use std::io;
use std::time::Duration;

use sandyard_protocol::JobUsage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::owned_socket::OwnedSocket;
use crate::host::vm::machine_control;

/// Longest wait for an answer. A machine that takes longer counts as one that can't answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest greeting: `OK`, a space and the number of a port.
const GREETING_BYTES: usize = 32;

/// Returns the job's usage, as the machine counts it.
pub(super) async fn usage(socket: &OwnedSocket, port: u32) -> io::Result<JobUsage> {
    let asked = async { machine_control::usage(&mut connect(socket, port).await?).await };
    timeout(ANSWER_TIMEOUT, asked).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

async fn connect(socket: &OwnedSocket, port: u32) -> io::Result<UnixStream> {
    let mut stream = socket.connect().await?;
    stream.write_all(format!("CONNECT {port}\n").as_bytes()).await?;
    let mut greeting = Vec::new();
    // Byte by byte, because the guest's lines follow at once. The bound stops an endless greeting.
    while !greeting.ends_with(b"\n") && greeting.len() < GREETING_BYTES {
        greeting.push(stream.read_u8().await?);
    }
    if greeting.starts_with(b"OK ") { Ok(stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

#[cfg(test)]
mod tests {
    use sandyard_protocol::{ControlReply, ControlRequest};
    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::UnixListener;

    use super::*;

    async fn answered(greeting: &'static str) -> io::Result<JobUsage> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vsock.sock");
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            let (read, mut write) = listener.accept().await.unwrap().0.into_split();
            let mut lines = BufReader::new(read).lines();
            assert_eq!(lines.next_line().await.unwrap().unwrap(), "CONNECT 1025");
            write.write_all(greeting.as_bytes()).await.unwrap();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(ControlRequest { number, .. }) = serde_json::from_str(&line) else { continue };
                let usage = JobUsage { memory_kills: 3, ..JobUsage::default() };
                let reply = serde_json::to_string(&ControlReply { number, usage }).unwrap();
                write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
            }
        });
        usage(&OwnedSocket::new(path, rustix::process::geteuid().as_raw()), 1025).await
    }

    #[tokio::test]
    async fn counters_are_read_from_a_machine_that_answers() {
        assert_eq!(answered("OK 1073741824\n").await.unwrap().memory_kills, 3);
    }

    #[tokio::test]
    async fn another_greeting_and_an_endless_one_are_refused() {
        assert!(answered("no\n").await.is_err());
        assert!(answered("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx").await.is_err());
    }
}
