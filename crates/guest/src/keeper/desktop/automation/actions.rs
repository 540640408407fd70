//! Performs one action on the display.

use std::time::{Duration, Instant};

use sandyard_protocol::limits::{GUI_TEXT_BYTES, GUI_WAIT_MS};
use sandyard_protocol::{GuiAction, GuiResult};

use super::client::{ActionOutcome, DisplayClient, DisplayError, invalid, pause};
use super::images::Picture;
use super::scripts;
use super::stability::StabilityWatch;
use super::worker::ScreenDigest;

/// Interval between two looks at a screen that should come to rest.
const STABILITY_INTERVAL: Duration = Duration::from_millis(100);

impl DisplayClient {
    /// Performs one action, within the protocol's bounds on its text and its waits.
    pub(super) fn act(&self, action: &GuiAction) -> Result<ActionOutcome, DisplayError> {
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
                Ok(ActionOutcome::default())
            }
            GuiAction::WaitForStable { quiet_ms, timeout_ms } => self.wait_for_stable(*quiet_ms, *timeout_ms),
            GuiAction::Screenshot { window } => self.screenshot(*window),
            GuiAction::Xdotool { script } => {
                check_length(script)?;
                let output = scripts::run(script)?;
                Ok(ActionOutcome {
                    result: GuiResult { output: Some(output), ..GuiResult::default() },
                    png: None,
                })
            }
            GuiAction::Windows => {
                let windows = Some(self.windows()?);
                Ok(ActionOutcome { result: GuiResult { windows, ..GuiResult::default() }, png: None })
            }
        }
    }

    fn screenshot(&self, window: Option<u32>) -> Result<ActionOutcome, DisplayError> {
        Ok(with_picture(self.picture(window)?))
    }

    /// Returns a picture of the screen and its digest; `None` if the screen has the digest `unless`.
    pub(super) fn look(
        &self,
        unless: Option<ScreenDigest>,
    ) -> Result<Option<(ScreenDigest, ActionOutcome)>, DisplayError> {
        Ok(self.picture_unless(unless)?.map(|(digest, picture)| (digest, with_picture(picture))))
    }

    /// Waits until nothing has changed for `quiet_ms`, apart from areas that blink like a text cursor.
    fn wait_for_stable(&self, quiet_ms: u64, timeout_ms: u64) -> Result<ActionOutcome, DisplayError> {
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
            pause(STABILITY_INTERVAL.min(quiet));
            if watch.take(self.pixels()?) {
                since = Instant::now();
            }
        };
        Ok(ActionOutcome { result: GuiResult { stable: Some(stable), ..GuiResult::default() }, png: None })
    }
}

fn with_picture(picture: Picture) -> ActionOutcome {
    let Picture { png, width, height } = picture;
    let png_bytes = Some(png.len() as u64);
    let result = GuiResult { png_bytes, width: Some(width), height: Some(height), ..GuiResult::default() };
    ActionOutcome { result, png: Some(png) }
}

fn nothing((): ()) -> ActionOutcome {
    ActionOutcome::default()
}

fn check_length(text: &str) -> Result<(), DisplayError> {
    if text.len() > GUI_TEXT_BYTES {
        return Err(invalid(format!("more than {GUI_TEXT_BYTES} bytes at once")));
    }
    Ok(())
}
