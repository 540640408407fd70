//! Questions to the first process of a machine, over a vsock connection of the host's: Firecracker is told the port and then
//! carries lines. What comes back is the guest's word: bounded, and counters of its own job alone.

use std::io;
use std::time::Duration;

use sandyard_protocol::{CONTROL_LINE_BYTES, ControlReply, ControlRequest, ControlWish, JobUsage};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::owned_socket::OwnedSocket;

/// A machine that does not answer by then is taken for one that can't.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// What the job used so far, by the machine's own count.
pub(super) async fn usage(socket: &OwnedSocket, port: u32) -> io::Result<JobUsage> {
    timeout(ANSWERS_WITHIN, ask(socket, port)).await.map_err(|_| io::ErrorKind::TimedOut)?
}

async fn ask(socket: &OwnedSocket, port: u32) -> io::Result<JobUsage> {
    let mut stream = BufReader::new(socket.connect().await?);
    stream.write_all(format!("CONNECT {port}\n").as_bytes()).await?;
    if !line(&mut stream).await?.starts_with(b"OK ") {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let number = getrandom::u64().map_err(io::Error::other)?;
    let mut question = serde_json::to_vec(&ControlRequest { number, wish: ControlWish::Usage })?;
    question.push(b'\n');
    stream.write_all(&question).await?;
    let reply: ControlReply = serde_json::from_slice(&line(&mut stream).await?)?;
    if reply.number == number { Ok(reply.usage) } else { Err(io::ErrorKind::InvalidData.into()) }
}

async fn line(stream: &mut BufReader<UnixStream>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(CONTROL_LINE_BYTES as u64).read_until(b'\n', &mut line).await?;
    if line.ends_with(b"\n") { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    async fn answered(first: &'static str, second: &'static str) -> io::Result<JobUsage> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vsock.sock");
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            assert_eq!(line(&mut stream).await.unwrap(), b"CONNECT 1025\n");
            stream.write_all(first.as_bytes()).await.unwrap();
            let request: ControlRequest = serde_json::from_slice(&line(&mut stream).await.unwrap()).unwrap();
            let reply = second.replace("NUMBER", &request.number.to_string());
            stream.write_all(reply.as_bytes()).await.unwrap();
        });
        usage(&OwnedSocket::new(path, rustix::process::geteuid().as_raw()), 1025).await
    }

    const REPLY: &str = "{\"number\":NUMBER,\"usage\":{\"cpu_us\":1,\"peak_memory_bytes\":2,\"memory_kills\":3,\"pids_refused\":4}}\n";

    #[tokio::test]
    async fn counters_are_read() {
        let usage = answered("OK 1024\n", REPLY).await.unwrap();
        assert_eq!((usage.cpu_us, usage.memory_kills, usage.pids_refused), (1, 3, 4));
    }

    #[tokio::test]
    async fn nonsense_floods_and_answers_to_others_are_errors() {
        assert!(answered("no\n", REPLY).await.is_err());
        assert!(answered("OK 1\n", "{}\n").await.is_err());
        assert!(answered("OK 1\n", &REPLY.replace("NUMBER", "1").leak()[..]).await.is_err());
        assert!(answered("OK 1\n", &"x".repeat(100_000).leak()[..]).await.is_err());
        assert!(answered("OK 1\n", "").await.is_err());
    }
}
