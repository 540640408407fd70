//! What actions on a desktop came to.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `POST /jobs/{id}/gui`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuiView {
    /// Whether all actions were done; otherwise the last result says why not.
    pub completed: bool,
    /// One for each action that was tried, in order.
    pub results: Vec<GuiResultView>,
}

/// What one action came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuiResultView {
    /// The action.
    #[serde(rename = "type")]
    pub action: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// What a script printed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<String>,
    /// Whether the screen came to rest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stable: Option<bool>,
    /// The windows, lowest first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub windows: Option<Vec<WindowView>>,
    /// The picture.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image: Option<ImageBytesView>,
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageBytesView {
    /// Always `image/png`.
    pub mime: String,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// The bytes.
    pub base64: String,
}

/// One window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WindowView {
    /// Names it for a screenshot and for xdotool.
    pub id: u32,
    /// What its title bar says.
    pub title: String,
    /// From the screen's left edge.
    pub x: i32,
    /// From the screen's upper edge.
    pub y: i32,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Whether it has the keyboard.
    pub active: bool,
}
