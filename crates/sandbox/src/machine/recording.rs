//! The recording of a desktop: its pictures, one after another, each when the screen has changed.

use std::time::Duration;

use sandyard_protocol::{NextPicture, RecordedPicture, Reply, Request};

use super::calls::{GuestStream, Machine, MachineError, unexpected};
use super::desktop::picture;

/// The first generation whose guests record desktops.
const FIRST_GENERATION: u32 = 2;
/// Sides of a screen, as the guest bounds them. A picture that claims more would take the memory of whoever shows it.
const MAX_SIDE: u32 = 4096;
/// Place of width and height in a PNG, which begins with its signature and the head of the chunk `IHDR`.
const SIZE_AT: usize = 16;

/// A picture of the whole screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenPicture {
    /// The picture.
    pub png: Vec<u8>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// A desktop that is being recorded. Dropping it ends the recording.
#[derive(Debug)]
pub struct DesktopRecording {
    stream: GuestStream,
}

impl Machine {
    /// Begins to record the desktop, which is neither started by this nor kept up. `None` if the guest is of a generation before.
    pub async fn record_desktop(&self) -> Result<Option<DesktopRecording>, MachineError> {
        if self.link.generation() < FIRST_GENERATION {
            return Ok(None);
        }
        match self.call(&Request::RecordDesktop).await? {
            (stream, Reply::Done) => Ok(Some(DesktopRecording { stream })),
            (_, other) => Err(unexpected(&other)),
        }
    }
}

impl DesktopRecording {
    /// Returns the next picture that differs from the one before, at the earliest after that time. Waits without a deadline: a
    /// desktop may rest for ever.
    pub async fn next(&mut self, after: Duration) -> Result<ScreenPicture, MachineError> {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.stream.send_message(&NextPicture { after_ms }).await?;
        let RecordedPicture { png_bytes } = self.stream.receive_message().await?;
        let png = picture(&mut self.stream, png_bytes).await?;
        let (width, height) =
            size(&png).ok_or_else(|| MachineError::Malformed("the size of a picture".into()))?;
        Ok(ScreenPicture { png, width, height })
    }
}

/// The size that a PNG claims; `None` if no screen has it.
fn size(png: &[u8]) -> Option<(u32, u32)> {
    let side = |at: usize| {
        let bytes = png.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes)).filter(|side| (1..=MAX_SIDE).contains(side))
    };
    Some((side(SIZE_AT)?, side(SIZE_AT + 4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sizes_of_screens_are_taken() {
        let head = |width: u32, height: u32| {
            [&[0; SIZE_AT][..], &width.to_be_bytes(), &height.to_be_bytes()].concat()
        };
        assert_eq!(size(&head(1280, 800)), Some((1280, 800)));
        for (width, height) in [(0, 800), (1280, 0), (MAX_SIDE + 1, 1), (1, u32::MAX)] {
            assert_eq!(size(&head(width, height)), None, "{width} x {height}");
        }
        assert_eq!(size(&head(1, 1)[..20]), None);
    }
}
