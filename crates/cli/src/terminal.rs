//! The local terminal while it shows a remote shell: raw mode, window size, and restoring it.

use std::io::{self, IsTerminal};

use rustix::termios::{self, OptionalActions, Termios};

use crate::client::WindowSize;

/// Assumed size of a window that does not report one.
const USUAL_SIZE: WindowSize = WindowSize { rows: 24, columns: 80 };

/// Keeps the terminal in raw mode until it is dropped.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Switches to raw mode. Fails if standard input is no terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // The terminal may be gone, and then there is nothing to give back.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}

/// True if standard input and output are terminals.
pub(crate) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Returns the current size of the window.
pub(crate) fn size() -> WindowSize {
    match termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            WindowSize { rows: size.ws_row, columns: size.ws_col }
        }
        _ => USUAL_SIZE,
    }
}
