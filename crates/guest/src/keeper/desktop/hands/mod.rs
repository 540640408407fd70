//! The part of the desktop that speaks X: run as the job's own user, because whoever answers on the display is the job's.
//!
//! [`Hands`] is one connection with everything an action needs. `worker` serves keeper one action at a time, `job` is the main
//! process of a job of kind `gui`. Nothing here is trusted by keeper: it bounds what comes back and kills what hangs.

mod images;
pub mod job;
mod keyboard;
mod keys;
mod pointer;
mod scripts;
mod stability;
mod windows;
pub mod worker;

use std::time::{Duration, Instant};

use sandyard_protocol::limits::{GUI_TEXT_BYTES, GUI_WAIT_MS};
use sandyard_protocol::{GuiAction, GuiResult};
use x11rb::connection::Connection as _;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError};
use x11rb::protocol::xproto::{ConnectionExt as _, Window};
use x11rb::rust_connection::RustConnection;

use images::Picture;
use stability::StabilityWatch;

/// How often a screen that should come to rest is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandsError {
    /// Nobody answers on the display.
    #[error("connect to the display: {0}")]
    Connect(#[from] ConnectError),
    /// The display is gone.
    #[error("the display is gone: {0}")]
    Lost(#[from] ConnectionError),
    /// The display refused.
    #[error("the display refused: {0}")]
    Refused(#[from] ReplyError),
    /// The action makes no sense; the text says why.
    #[error("{0}")]
    Senseless(String),
    /// A program could not be run.
    #[error("{what}: {source}")]
    Program {
        /// Which.
        what: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl HandsError {
    /// Whether the connection is of no further use.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Lost(_) | Self::Refused(ReplyError::ConnectionError(_)) => true,
            Self::Refused(ReplyError::X11Error(_)) | Self::Senseless(_) | Self::Program { .. } => false,
        }
    }
}

fn senseless(message: impl Into<String>) -> HandsError {
    HandsError::Senseless(message.into())
}

/// What an action came to.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) result: GuiResult,
    pub(super) png: Option<Vec<u8>>,
}

/// A connection to the display.
pub(super) struct Hands {
    connection: RustConnection,
    root: Window,
    width: u16,
    height: u16,
}

impl Hands {
    /// Connects to the display that the environment names; one that is not there yet is started by the first knock.
    pub(super) fn connect() -> Result<Self, HandsError> {
        let (connection, number) = x11rb::connect(None)?;
        let screen =
            connection.setup().roots.get(number).ok_or_else(|| senseless("the display has no screen"))?;
        let (root, width, height) = (screen.root, screen.width_in_pixels, screen.height_in_pixels);
        Ok(Self { connection, root, width, height })
    }

    /// Does one thing.
    pub(super) fn act(&self, action: &GuiAction) -> Result<Done, HandsError> {
        match action {
            GuiAction::Click(click) => self.click(click, 1).map(nothing),
            GuiAction::DoubleClick(click) => self.click(click, 2).map(nothing),
            GuiAction::Move { x, y } => self.move_to(*x, *y).map(nothing),
            GuiAction::Drag { x, y, to_x, to_y, button } => {
                self.drag((*x, *y), (*to_x, *to_y), *button).map(nothing)
            }
            GuiAction::Scroll { x, y, dx, dy } => self.scroll(x.zip(*y), *dx, *dy).map(nothing),
            GuiAction::Type { text } => {
                check_length(text)?;
                self.type_text(text).map(nothing)
            }
            GuiAction::Key { keys } => {
                check_length(keys)?;
                self.press_keys(keys).map(nothing)
            }
            GuiAction::Wait { ms } => {
                pause(Duration::from_millis((*ms).min(GUI_WAIT_MS)));
                Ok(Done::default())
            }
            GuiAction::WaitForStable { quiet_ms, timeout_ms } => self.wait_for_stable(*quiet_ms, *timeout_ms),
            GuiAction::Screenshot { window } => self.screenshot(*window),
            GuiAction::Xdotool { script } => {
                check_length(script)?;
                let output = scripts::run(script)?;
                Ok(Done { result: GuiResult { output: Some(output), ..GuiResult::default() }, png: None })
            }
            GuiAction::Windows => {
                let windows = Some(self.windows()?);
                Ok(Done { result: GuiResult { windows, ..GuiResult::default() }, png: None })
            }
        }
    }

    fn screenshot(&self, window: Option<u32>) -> Result<Done, HandsError> {
        let Picture { png, width, height } = self.picture(window)?;
        let png_bytes = Some(png.len() as u64);
        let result =
            GuiResult { png_bytes, width: Some(width), height: Some(height), ..GuiResult::default() };
        Ok(Done { result, png: Some(png) })
    }

    /// Waits until nothing changed for `quiet_ms`, except for what blinks as a text cursor does.
    fn wait_for_stable(&self, quiet_ms: u64, timeout_ms: u64) -> Result<Done, HandsError> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms.min(GUI_WAIT_MS));
        let quiet = Duration::from_millis(quiet_ms.min(GUI_WAIT_MS));
        let mut watch = StabilityWatch::new(self.width, self.height, self.pixels()?);
        let mut since = Instant::now();
        let stable = loop {
            if since.elapsed() >= quiet {
                break true;
            }
            if Instant::now() >= deadline {
                break false;
            }
            pause(LOOK_AGAIN.min(quiet));
            if watch.take(self.pixels()?) {
                since = Instant::now();
            }
        };
        Ok(Done { result: GuiResult { stable: Some(stable), ..GuiResult::default() }, png: None })
    }

    /// Everything sent so far has been taken.
    fn settle(&self) -> Result<(), HandsError> {
        self.connection.get_input_focus()?.reply()?;
        Ok(())
    }
}

fn nothing((): ()) -> Done {
    Done::default()
}

fn check_length(text: &str) -> Result<(), HandsError> {
    if text.len() > GUI_TEXT_BYTES {
        return Err(senseless(format!("more than {GUI_TEXT_BYTES} bytes at once")));
    }
    Ok(())
}
/// Lets programs on the display keep up: X has no way to tell when they have.
#[expect(clippy::disallowed_methods, reason = "a role of its own, with one thread and nothing else to do")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
