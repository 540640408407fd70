//! A connection to the display, and the failures of actions on it.

use std::time::Duration;

use sandyard_protocol::GuiResult;
use x11rb::connection::Connection as _;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError};
use x11rb::protocol::xproto::{ConnectionExt as _, Window};
use x11rb::rust_connection::RustConnection;

/// An action that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DisplayError {
    /// Nothing answers on the display.
    #[error("connect to the display: {0}")]
    Connect(#[from] ConnectError),
    /// The display is gone.
    #[error("the display is gone: {0}")]
    Lost(#[from] ConnectionError),
    /// The display rejected a request, such as one for a window that is gone.
    #[error("the display refused: {0}")]
    Refused(#[from] ReplyError),
    /// The action can't be performed; the text says why.
    #[error("{0}")]
    Invalid(String),
    /// A program could not be run.
    #[error("{what}: {source}")]
    Program {
        what: String,
        #[source]
        source: std::io::Error,
    },
}

impl DisplayError {
    /// True if the connection can't be used any more.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Lost(_) | Self::Refused(ReplyError::ConnectionError(_)) => true,
            Self::Refused(ReplyError::X11Error(_)) | Self::Invalid(_) | Self::Program { .. } => false,
        }
    }
}

pub(super) fn invalid(message: impl Into<String>) -> DisplayError {
    DisplayError::Invalid(message.into())
}

/// The outcome of an action.
#[derive(Debug, Default)]
pub(super) struct ActionOutcome {
    pub(super) result: GuiResult,
    pub(super) png: Option<Vec<u8>>,
}

/// A connection to the display.
pub(super) struct DisplayClient {
    pub(super) connection: RustConnection,
    pub(super) root: Window,
    pub(super) width: u16,
    pub(super) height: u16,
}

impl DisplayClient {
    /// Connects to the display that the environment names. If no X server runs, the connection makes keeper start one.
    pub(super) fn connect() -> Result<Self, DisplayError> {
        let (connection, number) = x11rb::connect(None)?;
        let screen =
            connection.setup().roots.get(number).ok_or_else(|| invalid("the display has no screen"))?;
        let (root, width, height) = (screen.root, screen.width_in_pixels, screen.height_in_pixels);
        Ok(Self { connection, root, width, height })
    }

    /// Waits until the server has processed every request so far.
    pub(super) fn settle(&self) -> Result<(), DisplayError> {
        self.connection.get_input_focus()?.reply()?;
        Ok(())
    }
}

/// Sleeps, so that programs on the display keep up: X does not report when they have.
#[expect(clippy::disallowed_methods, reason = "a role of its own, with one thread and nothing else to do")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}
