//! The desktop: actions, their results, and who controls it.

use serde::{Deserialize, Deserializer, Serialize};

/// One action. Coordinates are pixels of the screen, from its upper left corner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum GuiAction {
    /// Presses and releases a button.
    Click(GuiClick),
    /// Clicks twice, fast.
    DoubleClick(GuiClick),
    /// Moves the pointer.
    Move {
        /// Pixels from the left edge.
        x: i32,
        /// Pixels from the upper edge.
        y: i32,
    },
    /// Moves the pointer with a button held.
    Drag {
        /// Coordinate of the start.
        x: i32,
        /// Coordinate of the start.
        y: i32,
        /// Coordinate of the end.
        to_x: i32,
        /// Coordinate of the end.
        to_y: i32,
        /// Button 1 to 5; the left button if not given.
        #[serde(default = "left_button", deserialize_with = "button_or_left")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<u8>))]
        button: u8,
    },
    /// Turns the wheel, one notch for each unit.
    Scroll {
        /// Coordinate; that of the pointer if not given.
        #[serde(default)]
        x: Option<i32>,
        /// Coordinate; that of the pointer if not given.
        #[serde(default)]
        y: Option<i32>,
        /// Notches to the right; negative ones to the left.
        #[serde(default, deserialize_with = "notches_or_zero")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<i32>))]
        dx: i32,
        /// Notches down; negative ones up.
        #[serde(default, deserialize_with = "notches_or_zero")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<i32>))]
        dy: i32,
    },
    /// Types text; any Unicode character is allowed.
    Type {
        /// The text.
        text: String,
    },
    /// Presses keys together (`ctrl+shift+t`); chords separated by spaces are pressed one after another.
    Key {
        /// The keys.
        keys: String,
    },
    /// Waits.
    Wait {
        /// Duration, at most 300000.
        ms: u64,
    },
    /// Waits until the screen has not changed for a while.
    WaitForStable {
        /// How long the screen must stay unchanged; 500 if not given.
        #[serde(default = "default_quiet_ms", deserialize_with = "quiet_ms_or_default")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
        quiet_ms: u64,
        /// When to give up; 10000 if not given.
        #[serde(default = "default_stable_ms", deserialize_with = "stable_ms_or_default")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
        timeout_ms: u64,
    },
    /// Takes a screenshot of the screen or of one window.
    Screenshot {
        /// Id of the window, from `windows`.
        #[serde(default)]
        window: Option<u32>,
    },
    /// Runs a script for xdotool.
    Xdotool {
        /// The script.
        script: String,
    },
    /// Lists the windows.
    Windows,
}

/// Position and manner of a click.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuiClick {
    /// Pixels from the left edge; at the pointer if not given.
    #[serde(default)]
    pub x: Option<i32>,
    /// Pixels from the upper edge; at the pointer if not given.
    #[serde(default)]
    pub y: Option<i32>,
    /// Button 1 to 5; the left button if not given.
    #[serde(default = "left_button", deserialize_with = "button_or_left")]
    pub button: u8,
    /// Keys held during the click, as `ctrl+shift`.
    #[serde(default)]
    pub hold: Option<String>,
}

impl GuiAction {
    /// The name of the action, as its member `type` spells it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Click(_) => "click",
            Self::DoubleClick(_) => "double_click",
            Self::Move { .. } => "move",
            Self::Drag { .. } => "drag",
            Self::Scroll { .. } => "scroll",
            Self::Type { .. } => "type",
            Self::Key { .. } => "key",
            Self::Wait { .. } => "wait",
            Self::WaitForStable { .. } => "wait_for_stable",
            Self::Screenshot { .. } => "screenshot",
            Self::Xdotool { .. } => "xdotool",
            Self::Windows => "windows",
        }
    }
}

// Written by hand: the derive would turn `deny_unknown_fields` into `additionalProperties: false`, and no action could satisfy
// that, because `GuiAction` puts its `type` beside these members.
#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for GuiClick {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        // The members as HTTP clients see them: all may be left out.
        /// Position and manner of a click.
        #[derive(utoipa::ToSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct GuiClickMembers {
            /// Pixels from the left edge; at the pointer if not given.
            x: Option<i32>,
            /// Pixels from the upper edge; at the pointer if not given.
            y: Option<i32>,
            /// Button 1 to 5; the left button if not given.
            button: Option<u8>,
            /// Keys held during the click, as `ctrl+shift`.
            hold: Option<String>,
        }
        GuiClickMembers::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for GuiClick {}

/// The result of an action. The bytes of a screenshot follow in data frames.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuiResult {
    /// Why the action failed. No action after it was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Output of an xdotool script, cut to a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The list of windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Vec<WindowInfo>>,
    /// True if the screen stopped changing in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<bool>,
    /// Bytes of the PNG picture that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub png_bytes: Option<u64>,
    /// Width of the picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Height of the picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
}

/// A window in the list of an action `windows`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowInfo {
    /// The id of the window for screenshots and xdotool.
    pub id: u32,
    /// The title, cut to a bound.
    pub title: String,
    /// Distance from the left edge of the screen, in pixels.
    pub x: i32,
    /// Distance from the upper edge of the screen, in pixels.
    pub y: i32,
    /// Width of the window in pixels.
    pub width: u32,
    /// Height of the window in pixels.
    pub height: u32,
    /// True if the window has the keyboard.
    pub active: bool,
}

/// Asks for the next picture of a recorded desktop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextPicture {
    /// Shortest time before the screen is looked at.
    pub after_ms: u64,
}

/// A picture of a recorded desktop. Its bytes follow in data frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPicture {
    /// Bytes of the PNG.
    pub png_bytes: u64,
}

/// The rights with which a viewer connects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DesktopMode {
    /// The viewer sees the desktop; its keys, pointer and clipboard are dropped.
    View,
    /// Takes the control lock for as long as the stream lives.
    Control {
        /// Name of the person who takes control, for messages to others.
        who: String,
    },
}

fn left_button() -> u8 {
    1
}

// An explicit null is a member that was left out: HTTP clients send either.

fn button_or_left<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(left_button))
}

fn notches_or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn quiet_ms_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(default_quiet_ms))
}

fn stable_ms_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(default_stable_ms))
}

fn default_quiet_ms() -> u64 {
    500
}

fn default_stable_ms() -> u64 {
    10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_read_as_the_contract_writes_them() {
        for (text, action) in [
            (r#"{"type":"move","x":1,"y":2}"#, GuiAction::Move { x: 1, y: 2 }),
            (r#"{"type":"windows"}"#, GuiAction::Windows),
            (
                r#"{"type":"click","x":3,"y":4}"#,
                GuiAction::Click(GuiClick { x: Some(3), y: Some(4), button: 1, hold: None }),
            ),
            (r#"{"type":"screenshot"}"#, GuiAction::Screenshot { window: None }),
            (r#"{"type":"wait_for_stable"}"#, GuiAction::WaitForStable { quiet_ms: 500, timeout_ms: 10_000 }),
            (
                r#"{"type":"wait_for_stable","quiet_ms":null}"#,
                GuiAction::WaitForStable { quiet_ms: 500, timeout_ms: 10_000 },
            ),
            (r#"{"type":"scroll","dx":null,"dy":2}"#, GuiAction::Scroll { x: None, y: None, dx: 0, dy: 2 }),
            (
                r#"{"type":"click","button":null}"#,
                GuiAction::Click(GuiClick { x: None, y: None, button: 1, hold: None }),
            ),
        ] {
            assert_eq!(serde_json::from_str::<GuiAction>(text).unwrap(), action, "{text}");
            assert!(text.contains(action.name()), "{text}");
        }
        for text in [r#"{"type":"fly"}"#, r#"{"type":"move","x":1}"#, r#"{"type":"move","x":1,"y":2,"z":3}"#]
        {
            assert!(serde_json::from_str::<GuiAction>(text).is_err(), "{text}");
        }
    }
}
