//! Records the desktop for the host: a picture whenever the screen has changed, as often as the host asks.
//!
//! A recording is no use of the desktop: it never starts one, and never keeps one up. Workers are borrowed for each look, so that
//! between two looks none is a client of the display.

use std::time::Duration;

use sandyard_protocol::limits::{DATA_BYTES, SCREENSHOT_BYTES};
use sandyard_protocol::{GuestError, GuestErrorCode, NextPicture, RecordedPicture, Reply};

use super::answer::DesktopAnswer;
use super::automation::worker::{ScreenDigest, WorkerOrder};
use super::session::DesktopSession;
use crate::keeper::stream::HostStream;
use crate::limits::HOST_STALL;

/// Delay before a second look at a screen that had not changed; it doubles with each further one.
const SHORTEST_REST: Duration = Duration::from_secs(1);
/// Longest delay between two looks. The first change after a long rest is recorded this late.
const LONGEST_REST: Duration = Duration::from_secs(4);
/// Deadline of a look and of each part of a picture.
const LOOK_DEADLINE: Duration = Duration::from_secs(10);

/// Serves `RecordDesktop` until the host leaves.
pub(super) async fn serve(session: &DesktopSession, mut stream: HostStream) -> DesktopAnswer {
    if session.places().is_none() {
        return Err((GuestError::new(GuestErrorCode::NotFound, "this machine has no desktop"), stream));
    }
    if stream.send_message(&Reply::Done).await.is_err() {
        return Ok(());
    }
    let mut seen = None;
    while let Ok(NextPicture { after_ms }) = stream.receive_message().await {
        // The host sends nothing before the answer, so anything that arrives means that it has left. A cancelled look drops its
        // worker, which ends it.
        let png = tokio::select! {
            png = changed(session, &mut seen, Duration::from_millis(after_ms)) => png,
            _ = stream.receive() => return Ok(()),
        };
        let sent = tokio::time::timeout(HOST_STALL, send(&mut stream, &png)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return Ok(());
        }
    }
    Ok(())
}

async fn send(stream: &mut HostStream, png: &[u8]) -> Result<(), sandyard_pipe::FrameError> {
    stream.send_message(&RecordedPicture { png_bytes: png.len() as u64 }).await?;
    for part in png.chunks(DATA_BYTES) {
        stream.send_data(part).await?;
    }
    Ok(())
}

/// Returns a picture of the screen once it differs from the one that was seen, at the earliest after that time.
async fn changed(session: &DesktopSession, seen: &mut Option<ScreenDigest>, after: Duration) -> Vec<u8> {
    tokio::time::sleep(after).await;
    let mut up = session.up();
    let mut rest = SHORTEST_REST;
    loop {
        // Asked each time: a worker that connects to a display that is down would start it.
        if session.is_up().await {
            if let Some(png) = look(session, seen).await {
                return png;
            }
        } else if up.wait_for(|up| *up).await.is_err() {
            // Keeper is ending, and this task with it.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(rest).await;
        rest = (rest * 2).min(LONGEST_REST);
    }
}

/// Returns a picture if the screen differs from the one that was seen. A failure is a look without a change.
async fn look(session: &DesktopSession, seen: &mut Option<ScreenDigest>) -> Option<Vec<u8>> {
    let mut worker = session.workers().take().await.ok()?;
    let report = worker.obey(&WorkerOrder::Look { unless: *seen }, LOOK_DEADLINE).await.ok()?;
    let length = report.result.png_bytes.unwrap_or(0);
    let png = worker.picture(length, SCREENSHOT_BYTES, LOOK_DEADLINE).await?;
    if !report.lost {
        session.workers().put_back(worker);
    }
    if png.is_empty() {
        return None;
    }
    *seen = report.digest;
    Some(png)
}
