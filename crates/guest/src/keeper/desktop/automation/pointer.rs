//! The pointer: moves, buttons, wheel, drags, by the XTEST extension.

use std::time::Duration;

use sandyard_protocol::GuiClick;
use x11rb::protocol::xproto::{BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, MOTION_NOTIFY_EVENT};
use x11rb::protocol::xtest::ConnectionExt as _;

use super::client::{DisplayClient, DisplayError, invalid, pause};

/// Time for a window manager to give the clicked window the keyboard.
const FOCUS_TIME: Duration = Duration::from_millis(30);
/// Between two clicks of a double one; toolkits take up to 400.
const DOUBLE_CLICK_GAP: Duration = Duration::from_millis(60);
/// Steps of a drag: toolkits begin one only after several moves.
const DRAG_STEPS: i32 = 24;
const DRAG_STEP_TIME: Duration = Duration::from_millis(12);
/// Pause before the first step and after the last one, so that the program notices the grip.
const DRAG_GRIP_TIME: Duration = Duration::from_millis(80);
/// Notches in one action; more is a mistake.
const MOST_NOTCHES: u32 = 200;
const WHEEL_UP: u8 = 4;
const WHEEL_DOWN: u8 = 5;
const WHEEL_LEFT: u8 = 6;
const WHEEL_RIGHT: u8 = 7;

impl DisplayClient {
    pub(super) fn click(&self, click: &GuiClick, times: u8) -> Result<(), DisplayError> {
        check_button(click.button)?;
        let held = match &click.hold {
            Some(keys) => self.chord(keys)?,
            None => Vec::new(),
        };
        match (click.x, click.y) {
            (Some(x), Some(y)) => self.move_to(x, y)?,
            (None, None) => {}
            _ => return Err(invalid("a click has both `x` and `y` or neither")),
        }
        for key in &held {
            self.key(*key, true)?;
        }
        let clicked = (0..times).try_for_each(|number| {
            if number > 0 {
                pause(DOUBLE_CLICK_GAP);
            }
            self.button(click.button, true)?;
            self.button(click.button, false)
        });
        // A key that stays down would spoil everything after.
        for key in held.iter().rev() {
            self.key(*key, false)?;
        }
        clicked?;
        self.settle()?;
        pause(FOCUS_TIME);
        Ok(())
    }

    pub(super) fn move_to(&self, x: i32, y: i32) -> Result<(), DisplayError> {
        let (x, y) = self.on_screen(x, y)?;
        self.connection.xtest_fake_input(MOTION_NOTIFY_EVENT, 0, 0, self.root, x, y, 0)?;
        self.settle()
    }

    pub(super) fn drag(&self, from: (i32, i32), to: (i32, i32), button: u8) -> Result<(), DisplayError> {
        check_button(button)?;
        // Checked before the button goes down, so that a bad target does not leave a drag half done.
        self.on_screen(to.0, to.1)?;
        self.move_to(from.0, from.1)?;
        self.button(button, true)?;
        self.settle()?;
        pause(DRAG_GRIP_TIME);
        let moved = (1..=DRAG_STEPS).try_for_each(|step| {
            pause(DRAG_STEP_TIME);
            let at = |from: i32, to: i32| from + (to - from) * step / DRAG_STEPS;
            self.move_to(at(from.0, to.0), at(from.1, to.1))
        });
        pause(DRAG_GRIP_TIME);
        // Released even if a step failed: a button that stays down would spoil all later actions.
        self.button(button, false)?;
        moved?;
        self.settle()?;
        pause(FOCUS_TIME);
        Ok(())
    }

    pub(super) fn scroll(&self, at: Option<(i32, i32)>, dx: i32, dy: i32) -> Result<(), DisplayError> {
        if let Some((x, y)) = at {
            self.move_to(x, y)?;
        }
        if dx.unsigned_abs() > MOST_NOTCHES || dy.unsigned_abs() > MOST_NOTCHES {
            return Err(invalid(format!("a scroll has at most {MOST_NOTCHES} notches")));
        }
        let vertical = if dy > 0 { WHEEL_DOWN } else { WHEEL_UP };
        let horizontal = if dx > 0 { WHEEL_RIGHT } else { WHEEL_LEFT };
        for (button, notches) in [(vertical, dy.unsigned_abs()), (horizontal, dx.unsigned_abs())] {
            for _ in 0..notches {
                self.button(button, true)?;
                self.button(button, false)?;
            }
        }
        self.settle()
    }

    fn button(&self, button: u8, down: bool) -> Result<(), DisplayError> {
        let event = if down { BUTTON_PRESS_EVENT } else { BUTTON_RELEASE_EVENT };
        self.connection.xtest_fake_input(event, button, 0, self.root, 0, 0, 0)?;
        Ok(())
    }

    fn on_screen(&self, x: i32, y: i32) -> Result<(i16, i16), DisplayError> {
        let inside =
            |at: i32, size: u16| i16::try_from(at).ok().filter(|_| (0..i32::from(size)).contains(&at));
        match (inside(x, self.width), inside(y, self.height)) {
            (Some(x), Some(y)) => Ok((x, y)),
            _ => Err(invalid(format!(
                "({x}, {y}) is outside the screen of {} × {} pixels",
                self.width, self.height
            ))),
        }
    }
}

fn check_button(button: u8) -> Result<(), DisplayError> {
    if (1..=5).contains(&button) { Ok(()) } else { Err(invalid("a button is a number from 1 to 5")) }
}
