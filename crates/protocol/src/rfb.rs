//! What a VNC client may say to a desktop (RFC 6143): a filter between the two, pure and bounded.
//!
//! Clients are not trusted to look on only because their page says so: a viewer's keys, pointer and clipboard are taken out
//! here. The handshake is fixed to version 3.8, no password and shared access, so that no client can send another away and
//! the position in the stream is always known. A message nobody knows ends the connection: its length can't be known either.

use crate::limits::CUT_TEXT_BYTES;

/// What the client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRights {
    /// Look on.
    View,
    /// Keys, pointer and clipboard as well.
    Control,
}

/// The client broke the rules; the connection must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RfbError {
    /// Not version 3.8 of the protocol or newer.
    #[error("the client does not speak version 3.8 of the remote framebuffer protocol")]
    Version,
    /// Another security type than `None`.
    #[error("the client chose a security type that was not offered")]
    Security,
    /// A message of unknown type.
    #[error("the client sent a message of unknown type {0}")]
    Unknown(u8),
    /// A message longer than its bound.
    #[error("the client sent a message that is too long")]
    TooLong,
}

/// The longest list of encodings; clients name a few dozen.
const ENCODINGS: usize = 256;
/// The longest payload of a fence, as its specification says.
const FENCE_BYTES: usize = 64;
/// Screens in a request for another size.
const SCREENS: usize = 255;
const VERSION: &[u8; 12] = b"RFB 003.008\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Version,
    Security,
    Init,
    Messages,
    /// So many bytes of a long message are still to come, and whether they pass.
    Rest {
        left: usize,
        passes: bool,
    },
}

/// One client's stream towards the desktop.
#[derive(Debug)]
pub struct ClientFilter {
    rights: ClientRights,
    stage: Stage,
    /// The beginning of a message whose length is not known yet; never longer than the longest fixed part.
    pending: Vec<u8>,
}

impl ClientFilter {
    /// At the beginning of the handshake.
    pub fn new(rights: ClientRights) -> Self {
        Self { rights, stage: Stage::Version, pending: Vec::new() }
    }

    /// Takes what the client sent and appends what may go on to `passed`.
    pub fn take(&mut self, mut bytes: &[u8], passed: &mut Vec<u8>) -> Result<(), RfbError> {
        while !bytes.is_empty() {
            if let Stage::Rest { left, passes } = self.stage {
                let (now, later) = bytes.split_at(left.min(bytes.len()));
                if passes {
                    passed.extend_from_slice(now);
                }
                bytes = later;
                let left = left - now.len();
                self.stage = if left == 0 { Stage::Messages } else { Stage::Rest { left, passes } };
                continue;
            }
            self.pending.push(bytes[0]);
            bytes = &bytes[1..];
            self.advance(passed)?;
        }
        Ok(())
    }

    fn advance(&mut self, passed: &mut Vec<u8>) -> Result<(), RfbError> {
        match self.stage {
            Stage::Version if self.pending.len() == VERSION.len() => {
                check_version(&self.pending)?;
                passed.extend_from_slice(VERSION);
                self.next(Stage::Security);
            }
            Stage::Security => {
                if self.pending != [1] {
                    return Err(RfbError::Security);
                }
                passed.push(1);
                self.next(Stage::Init);
            }
            Stage::Init => {
                // Always shared: an exclusive client would send the others away.
                passed.push(1);
                self.next(Stage::Messages);
            }
            Stage::Messages => self.message(passed)?,
            Stage::Version | Stage::Rest { .. } => {}
        }
        Ok(())
    }

    fn next(&mut self, stage: Stage) {
        self.pending.clear();
        self.stage = stage;
    }

    /// Decides on a message as soon as its whole length is known.
    fn message(&mut self, passed: &mut Vec<u8>) -> Result<(), RfbError> {
        let Some((length, class)) = measure(&self.pending)? else { return Ok(()) };
        let passes = match class {
            Class::Harmless => true,
            Class::Input => self.rights == ClientRights::Control,
            Class::Never => false,
        };
        if passes {
            passed.extend_from_slice(&self.pending);
        }
        let left = length - self.pending.len();
        self.next(if left == 0 { Stage::Messages } else { Stage::Rest { left, passes } });
        Ok(())
    }
}

/// What a message can do.
enum Class {
    /// Asks for pixels.
    Harmless,
    /// Changes what the desktop does.
    Input,
    /// Belongs to nobody: the screen's size is the job's.
    Never,
}

/// The whole length of the message that begins with these bytes; nothing while it can't be known. Fixed parts are short, so
/// no more than twelve bytes are ever asked for.
fn measure(start: &[u8]) -> Result<Option<(usize, Class)>, RfbError> {
    let Some(&kind) = start.first() else { return Ok(None) };
    let count = |at: usize| Some(usize::from(u16::from_be_bytes([*start.get(at)?, *start.get(at + 1)?])));
    Ok(match kind {
        0 => Some((20, Class::Harmless)),
        2 => match count(2) {
            Some(count) if count > ENCODINGS => return Err(RfbError::TooLong),
            count => count.map(|count| (4 + 4 * count, Class::Harmless)),
        },
        3 | 150 => Some((10, Class::Harmless)),
        4 => Some((8, Class::Input)),
        5 => Some((6, Class::Input)),
        6 => cut_text(start)?.map(|length| (8 + length, Class::Input)),
        248 => match start.get(8).map(|length| usize::from(*length)) {
            Some(length) if length > FENCE_BYTES => return Err(RfbError::TooLong),
            length => length.map(|length| (9 + length, Class::Harmless)),
        },
        250 => Some((4, Class::Never)),
        251 => start.get(6).map(|screens| (8 + 16 * usize::from(*screens).min(SCREENS), Class::Never)),
        255 => match start.get(1) {
            None => None,
            Some(0) => Some((12, Class::Input)),
            Some(_) => return Err(RfbError::Unknown(255)),
        },
        other => return Err(RfbError::Unknown(other)),
    })
}

/// Length of the text; the extended form says it as a negative number.
fn cut_text(start: &[u8]) -> Result<Option<usize>, RfbError> {
    let Some(field) = start.get(4..8) else { return Ok(None) };
    let length = i32::from_be_bytes([field[0], field[1], field[2], field[3]]).unsigned_abs();
    match usize::try_from(length) {
        Ok(length) if length <= CUT_TEXT_BYTES => Ok(Some(length)),
        _ => Err(RfbError::TooLong),
    }
}

/// `RFB 003.008` and newer; clients of some vendors say 3.889.
fn check_version(line: &[u8]) -> Result<(), RfbError> {
    let minor = line.strip_prefix(b"RFB 003.").and_then(|rest| rest.strip_suffix(b"\n"));
    let minor = minor.filter(|digits| digits.iter().all(u8::is_ascii_digit));
    match minor
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse::<u16>().ok())
    {
        Some(minor) if minor >= 8 => Ok(()),
        _ => Err(RfbError::Version),
    }
}

#[cfg(test)]
#[path = "rfb_tests.rs"]
mod tests;
