//! The yard itself: version, health, drivers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What `GET /version` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionView {
    /// The program.
    #[schema(example = "sandyard")]
    pub name: String,
    /// Its version.
    pub version: String,
    /// The public key that signs the heads of audits: Ed25519, in hexadecimal.
    #[serde(default)]
    pub audit_key: String,
}

/// What `GET /healthz` and `GET /readyz` answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthView {
    /// `ok`, or why not.
    pub status: String,
}

/// What `GET /drivers` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AvailabilityView {
    /// In the order in which `any` tries them.
    pub drivers: Vec<DriverView>,
    /// The images and how far each is.
    pub images: Vec<ImageView>,
}

/// One driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriverView {
    /// Its name.
    pub name: String,
    /// Whether it can start sandboxes here: one was really started.
    pub usable: bool,
    /// Whether that is known.
    pub state: DriverState,
    /// Who gets its sandboxes.
    pub offer: DriverOffer,
    /// Its place in the order of floors: `none`, `container`, `gvisor` or `vm`.
    pub level: String,
    /// The means.
    pub runtime: String,
    /// Version or kernel features if usable, what is missing if not.
    pub detail: String,
    /// What a person can do about it.
    pub fix: Option<String>,
    /// How far an image is that is being made for it.
    pub making: Option<String>,
}

/// What is known of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriverState {
    /// A sandbox started.
    Usable,
    /// There is no image yet to try it with.
    Untried,
    /// It is being tried for the first time.
    Trying,
    /// No sandbox starts.
    Missing,
}

/// Who gets sandboxes of a driver, if it works. A job that names it always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriverOffer {
    /// Every job whose floor it meets.
    Always,
    /// Jobs that ask for more than a container, if nothing else gives it: it is slow here.
    WhenNeeded,
    /// Nobody else: it has known weaknesses.
    WhenNamed,
}

/// One image of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageView {
    /// Its flavour.
    #[schema(example = "base")]
    pub flavour: String,
    /// Whether sandboxes can start from it.
    pub ready: bool,
    /// How far its making is, or what it is made of.
    pub detail: String,
}
