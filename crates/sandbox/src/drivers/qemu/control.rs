//! The host's end of a machine's control line: what the job used, and the order to switch off.
//!
//! Each question is a connection of its own, so nothing is kept between two servers. Whatever comes back is bounded and parsed.

use std::io;
use std::path::Path;
use std::time::Duration;

use sandyard_protocol::{CONTROL_LINE_BYTES, ControlReply, ControlRequest, ControlWish, JobUsage};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::sockets;

/// An emulated machine under load answers within this.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Answers to questions of servers that went away before they came.
const STALE_ANSWERS: usize = 8;

/// Asks what the job used so far.
pub(super) async fn usage(folder: &Path) -> io::Result<JobUsage> {
    timeout(ANSWER_PATIENCE, ask_usage(folder)).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Orders the machine to end; the connection must stay until it has.
pub(super) async fn power_off(folder: &Path) -> io::Result<UnixStream> {
    say(folder, ControlRequest { number: 0, wish: ControlWish::PowerOff }).await
}

async fn ask_usage(folder: &Path) -> io::Result<JobUsage> {
    let number = getrandom::u64().map_err(io::Error::other)?;
    let mut stream = say(folder, ControlRequest { number, wish: ControlWish::Usage }).await?;
    answer_to(number, &mut stream).await
}

async fn say(folder: &Path, request: ControlRequest) -> io::Result<UnixStream> {
    let mut stream = sockets::connect(folder, sockets::CONTROL).await?;
    let mut line = serde_json::to_vec(&request)?;
    // Ends whatever half line a server before left.
    line.insert(0, b'\n');
    line.push(b'\n');
    stream.write_all(&line).await?;
    Ok(stream)
}

async fn answer_to(number: u64, stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<JobUsage> {
    let mut lines = BufReader::new(stream.take((CONTROL_LINE_BYTES * STALE_ANSWERS) as u64));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await? > 0 {
        match serde_json::from_slice::<ControlReply>(&line) {
            Ok(reply) if reply.number == number => return Ok(reply.usage),
            _ => line.clear(),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_answer_to_this_question_counts() {
        let usage = JobUsage { cpu_us: 7, ..JobUsage::default() };
        let stale = serde_json::to_string(&ControlReply { number: 1, usage: JobUsage::default() }).unwrap();
        let ours = serde_json::to_string(&ControlReply { number: 2, usage }).unwrap();
        let said = format!("half a li\n{stale}\n{ours}\n");
        assert_eq!(answer_to(2, &mut said.as_bytes()).await.unwrap(), usage);
        assert!(answer_to(3, &mut said.as_bytes()).await.is_err());
    }

    #[tokio::test]
    async fn endless_answers_are_refused() {
        let garbage = vec![b'x'; CONTROL_LINE_BYTES * STALE_ANSWERS * 2];
        assert!(answer_to(1, &mut garbage.as_slice()).await.is_err());
    }
}
