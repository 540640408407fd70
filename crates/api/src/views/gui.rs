//! Results of desktop actions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Response of `POST /jobs/{id}/gui`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuiView {
    /// True if all actions succeeded; otherwise the last result has the error.
    pub completed: bool,
    /// One result for each attempted action, in order.
    pub results: Vec<GuiResultView>,
}

/// The result of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuiResultView {
    /// Type of the action.
    #[serde(rename = "type")]
    pub action: String,
    /// Reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Output of a script.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<String>,
    /// True if the screen stopped changing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stable: Option<bool>,
    /// The windows, lowest first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub windows: Option<Vec<WindowView>>,
    /// The screenshot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image: Option<ImageBytesView>,
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageBytesView {
    /// Always `image/png`.
    pub mime: String,
    /// Size in pixels.
    pub width: u32,
    /// Size in pixels.
    pub height: u32,
    /// The file in base64.
    pub base64: String,
}

/// One window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WindowView {
    /// Id of the window, for screenshots and xdotool.
    pub id: u32,
    /// Title of the window.
    pub title: String,
    /// Pixels from the left edge of the screen.
    pub x: i32,
    /// Pixels from the upper edge of the screen.
    pub y: i32,
    /// Size in pixels.
    pub width: u32,
    /// Size in pixels.
    pub height: u32,
    /// True if the window has the keyboard focus.
    pub active: bool,
}
