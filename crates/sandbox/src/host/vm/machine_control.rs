//! Requests to the first process of a virtual machine, as lines over any byte stream. The answer is the
//! guest's claim: it is bounded, and holds only counters of its own job.

use std::io;

use sandyard_protocol::{CONTROL_LINE_BYTES, ControlReply, ControlRequest, ControlWish, JobUsage};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

/// Stale answers that are skipped: a server that went away may have left questions.
const MAX_STALE_ANSWERS: usize = 8;

/// Asks for the usage of the job. The caller sets the deadline.
pub(crate) async fn usage(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<JobUsage> {
    // A random number, so that the answer to an earlier server's question does not count as this one's.
    let number = getrandom::u64().map_err(io::Error::other)?;
    say(stream, ControlRequest { number, wish: ControlWish::Usage }).await?;
    answer_to(number, stream).await
}

pub(crate) async fn say(stream: &mut (impl AsyncWrite + Unpin), request: ControlRequest) -> io::Result<()> {
    let mut line = serde_json::to_vec(&request)?;
    // Ends the half line that an earlier server may have left.
    line.insert(0, b'\n');
    line.push(b'\n');
    stream.write_all(&line).await
}

async fn answer_to(number: u64, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<JobUsage> {
    // A hostile guest could answer without end. The bound also holds for a single line.
    let mut lines = BufReader::new(stream.take((CONTROL_LINE_BYTES * MAX_STALE_ANSWERS) as u64));
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
        let garbage = vec![b'x'; CONTROL_LINE_BYTES * MAX_STALE_ANSWERS * 2];
        assert!(answer_to(1, &mut garbage.as_slice()).await.is_err());
    }
}
