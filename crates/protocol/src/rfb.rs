//! A filter for the messages of VNC clients to a desktop (RFC 6143), pure and bounded.
//!
//! A client that may only view is not trusted to send no input: its keys, pointer and clipboard are removed here. The handshake is
//! fixed to version 3.8, no password and shared access, so that no client can disconnect another one and the position in the
//! stream is always known. An unknown message ends the connection, because its length is unknown too.

use crate::limits::CUT_TEXT_BYTES;

/// The rights of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRights {
    /// May see the desktop. Messages that control it are dropped.
    View,
    /// See the desktop and use keys, pointer and clipboard.
    Control,
}

/// A violation of the protocol, after which the connection must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RfbError {
    /// The client speaks a version before 3.8.
    #[error("the client does not speak version 3.8 of the remote framebuffer protocol")]
    Version,
    /// The client chose another security type than `None`.
    #[error("the client chose a security type that was not offered")]
    Security,
    /// A message of unknown type.
    #[error("the client sent a message of unknown type {0}")]
    Unknown(u8),
    /// A message is longer than its bound.
    #[error("the client sent a message that is too long")]
    TooLong,
}

/// Encodings in one list; clients name a few dozen.
const MAX_ENCODINGS: usize = 256;
/// The longest payload of a fence by its specification.
const MAX_FENCE_BYTES: usize = 64;
/// Screens in a request for another size: the count is one byte.
const MAX_SCREENS: usize = 255;
const VERSION: &[u8; 12] = b"RFB 003.008\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterStage {
    Version,
    Security,
    Init,
    Messages,
    /// Inside a long message of which `left` bytes are missing.
    Rest {
        left: usize,
        passes: bool,
    },
}

/// The filter for one client.
#[derive(Debug)]
pub struct ClientFilter {
    rights: ClientRights,
    stage: FilterStage,
    /// Start of a message whose length is not known yet; at most twelve bytes.
    pending: Vec<u8>,
}

impl ClientFilter {
    /// A filter at the start of the handshake.
    pub fn new(rights: ClientRights) -> Self {
        Self { rights, stage: FilterStage::Version, pending: Vec::new() }
    }

    /// Filters bytes from the client: appends those that the desktop may receive to `passed`.
    pub fn take(&mut self, mut bytes: &[u8], passed: &mut Vec<u8>) -> Result<(), RfbError> {
        while !bytes.is_empty() {
            if let FilterStage::Rest { left, passes } = self.stage {
                let (now, later) = bytes.split_at(left.min(bytes.len()));
                if passes {
                    passed.extend_from_slice(now);
                }
                bytes = later;
                let left = left - now.len();
                self.stage =
                    if left == 0 { FilterStage::Messages } else { FilterStage::Rest { left, passes } };
                continue;
            }
            // Byte by byte: a client may split its messages anywhere, also inside a header.
            self.pending.push(bytes[0]);
            bytes = &bytes[1..];
            self.advance(passed)?;
        }
        Ok(())
    }

    fn advance(&mut self, passed: &mut Vec<u8>) -> Result<(), RfbError> {
        match self.stage {
            FilterStage::Version if self.pending.len() == VERSION.len() => {
                check_version(&self.pending)?;
                passed.extend_from_slice(VERSION);
                self.next(FilterStage::Security);
            }
            FilterStage::Security => {
                if self.pending != [1] {
                    return Err(RfbError::Security);
                }
                passed.push(1);
                self.next(FilterStage::Init);
            }
            FilterStage::Init => {
                // Always shared: an exclusive client would send the others away.
                passed.push(1);
                self.next(FilterStage::Messages);
            }
            FilterStage::Messages => self.message(passed)?,
            FilterStage::Version | FilterStage::Rest { .. } => {}
        }
        Ok(())
    }

    fn next(&mut self, stage: FilterStage) {
        self.pending.clear();
        self.stage = stage;
    }

    /// Passes or drops a message as soon as its length is known.
    fn message(&mut self, passed: &mut Vec<u8>) -> Result<(), RfbError> {
        let Some((length, class)) = measure(&self.pending)? else { return Ok(()) };
        let passes = match class {
            MessageClass::Harmless => true,
            MessageClass::Input => self.rights == ClientRights::Control,
            MessageClass::Never => false,
        };
        if passes {
            passed.extend_from_slice(&self.pending);
        }
        // `measure` knows the length within twelve bytes, and no message is shorter than the bytes that it needed: no underflow.
        let left = length - self.pending.len();
        self.next(if left == 0 { FilterStage::Messages } else { FilterStage::Rest { left, passes } });
        Ok(())
    }
}

/// The effect of a message.
enum MessageClass {
    /// Asks for pixels or describes the client; allowed to everyone.
    Harmless,
    /// Controls the desktop; only for clients with control.
    Input,
    /// Not allowed to any client: the job decides the size of the screen.
    Never,
}

/// Returns the length and class of the message that starts with these bytes; `None` while more bytes are needed. Twelve bytes are
/// always enough.
fn measure(start: &[u8]) -> Result<Option<(usize, MessageClass)>, RfbError> {
    let Some(&kind) = start.first() else { return Ok(None) };
    let count = |at: usize| Some(usize::from(u16::from_be_bytes([*start.get(at)?, *start.get(at + 1)?])));
    Ok(match kind {
        0 => Some((20, MessageClass::Harmless)),
        2 => match count(2) {
            Some(count) if count > MAX_ENCODINGS => return Err(RfbError::TooLong),
            count => count.map(|count| (4 + 4 * count, MessageClass::Harmless)),
        },
        3 | 150 => Some((10, MessageClass::Harmless)),
        4 => Some((8, MessageClass::Input)),
        5 => Some((6, MessageClass::Input)),
        6 => cut_text(start)?.map(|length| (8 + length, MessageClass::Input)),
        248 => match start.get(8).map(|length| usize::from(*length)) {
            Some(length) if length > MAX_FENCE_BYTES => return Err(RfbError::TooLong),
            length => length.map(|length| (9 + length, MessageClass::Harmless)),
        },
        250 => Some((4, MessageClass::Never)),
        251 => {
            start.get(6).map(|screens| (8 + 16 * usize::from(*screens).min(MAX_SCREENS), MessageClass::Never))
        }
        255 => match start.get(1) {
            None => None,
            Some(0) => Some((12, MessageClass::Input)),
            Some(_) => return Err(RfbError::Unknown(255)),
        },
        other => return Err(RfbError::Unknown(other)),
    })
}

/// Length of a clipboard text. The extended form writes it as a negative number.
fn cut_text(start: &[u8]) -> Result<Option<usize>, RfbError> {
    let Some(field) = start.get(4..8) else { return Ok(None) };
    // `unsigned_abs` also holds for i32::MIN, which a plain negation would not.
    let length = i32::from_be_bytes([field[0], field[1], field[2], field[3]]).unsigned_abs();
    match usize::try_from(length) {
        Ok(length) if length <= CUT_TEXT_BYTES => Ok(Some(length)),
        _ => Err(RfbError::TooLong),
    }
}

/// Accepts `RFB 003.008` and later versions; clients of some vendors send 3.889.
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
