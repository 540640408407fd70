//! A machine's desktop: actions, pictures, and viewers as plain byte streams.

use std::time::Duration;

use sandyard_protocol::limits::{GUI_WAIT_MS, SCREENSHOT_BYTES};
use sandyard_protocol::{DesktopMode, GuiAction, GuiResult, Reply, Request};

use super::calls::{GuestStream, Machine, MachineError, next_part, reply_within, unexpected};
use super::ports::PortStream;

/// Longest start of the desktop, which begins with the first request, beside the machine's own time to boot: the guest gives up
/// a third earlier. On a machine with twenty starting desktops it takes seconds.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// Longest wait for an answer: the longest action, a person in control, and a margin.
const ACTION_DEADLINE: Duration = Duration::from_millis(2 * GUI_WAIT_MS + 150_000);
/// Longest wait for a part of a picture.
const PART_DEADLINE: Duration = Duration::from_secs(30);
/// First bytes of every PNG.
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

impl Machine {
    fn desktop_deadline(&self) -> Duration {
        START_DEADLINE + self.boot_time * 3 / 2
    }

    /// Connects a viewer: bytes of the remote framebuffer protocol. Control lasts as long as the stream.
    pub async fn connect_desktop(&self, mode: DesktopMode) -> Result<PortStream, MachineError> {
        let mut stream = self.request(&Request::ConnectDesktop { mode }).await?;
        match reply_within(&mut stream, self.desktop_deadline()).await? {
            Reply::Done => Ok(PortStream::after(stream)),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends actions to the desktop. The answers come one by one.
    pub async fn gui(&self, actions: Vec<GuiAction>, wait: Duration) -> Result<GuiAnswers, MachineError> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(GUI_WAIT_MS);
        let left = actions.len();
        let mut stream = self.request(&Request::Gui { actions, wait_ms }).await?;
        match reply_within(&mut stream, self.desktop_deadline() + Duration::from_millis(wait_ms)).await? {
            Reply::Done => Ok(GuiAnswers { stream, left }),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns a picture of the screen or of a window, as PNG. Starts the desktop if it does not run.
    pub async fn screenshot(&self, window: Option<u32>) -> Result<Vec<u8>, MachineError> {
        let mut answers = self.gui(vec![GuiAction::Screenshot { window }], Duration::ZERO).await?;
        match answers.next().await? {
            Some((GuiResult { error: None, .. }, Some(png))) => Ok(png),
            Some((GuiResult { error: Some(error), .. }, _)) => {
                Err(sandyard_protocol::GuestError::new(sandyard_protocol::GuestErrorCode::Internal, error)
                    .into())
            }
            _ => Err(MachineError::Malformed("no picture".into())),
        }
    }

    /// Returns the last picture of a desktop that ran, or `None` if none did.
    pub async fn last_screenshot(&self) -> Result<Option<Vec<u8>>, MachineError> {
        let (mut stream, reply) = self.call(&Request::LastScreenshot).await?;
        match reply {
            Reply::Picture { length: 0 } => Ok(None),
            Reply::Picture { length } => picture(&mut stream, length).await.map(Some),
            other => Err(unexpected(&other)),
        }
    }
}

/// The answers to a list of actions.
#[derive(Debug)]
pub struct GuiAnswers {
    stream: GuestStream,
    left: usize,
}

impl GuiAnswers {
    /// Returns the next answer and its picture, or `None` after the last. An answer with an error is the
    /// last.
    pub async fn next(&mut self) -> Result<Option<(GuiResult, Option<Vec<u8>>)>, MachineError> {
        if self.left == 0 {
            return Ok(None);
        }
        let received =
            tokio::time::timeout(ACTION_DEADLINE, self.stream.receive_message::<GuiResult>()).await;
        let result = received.map_err(|_| MachineError::Deadline)??;
        self.left = if result.error.is_some() { 0 } else { self.left - 1 };
        let png = match result.png_bytes {
            Some(length) => Some(picture(&mut self.stream, length).await?),
            None => None,
        };
        Ok(Some((result, png)))
    }
}

/// Reads a PNG of the announced length, and checks its first bytes.
pub(super) async fn picture(stream: &mut GuestStream, length: u64) -> Result<Vec<u8>, MachineError> {
    // Checked before anything is read, or a guest could make the host collect any number of bytes.
    if length > SCREENSHOT_BYTES {
        return Err(MachineError::Malformed(format!("a picture of {length} bytes")));
    }
    let mut png = Vec::new();
    let mut left = length;
    loop {
        let part = tokio::time::timeout(PART_DEADLINE, next_part(stream, &mut left, "picture"));
        match part.await.map_err(|_| MachineError::Deadline)?? {
            Some(part) => png.extend_from_slice(&part),
            None => break,
        }
    }
    if png.starts_with(SIGNATURE) { Ok(png) } else { Err(MachineError::Malformed("not a PNG".into())) }
}
