//! Our own terminal while it belongs to a shell elsewhere: raw mode, its size, and giving it back.

use std::io::{self, IsTerminal};

use rustix::termios::{self, OptionalActions, Termios};

use crate::client::WindowSize;

/// What a window is taken for when it won't say.
const USUAL_SIZE: WindowSize = WindowSize { rows: 24, columns: 80 };

/// The terminal passes every key on until this is dropped.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Takes the terminal; fails if standard input is none.
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

/// Whether a person sits at both ends.
pub(crate) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The window's size now.
pub(crate) fn size() -> WindowSize {
    match termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            WindowSize { rows: size.ws_row, columns: size.ws_col }
        }
        _ => USUAL_SIZE,
    }
}
