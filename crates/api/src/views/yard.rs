//! The server: version, health, drivers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Response of `GET /version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionView {
    /// Name of the program.
    #[schema(example = "sandyard")]
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Public key for the heads of audits: Ed25519, in hexadecimal.
    #[serde(default)]
    pub audit_key: String,
}

/// Response of `GET /settings`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsView {
    /// Settings in effect, sorted by key.
    pub settings: Vec<SettingView>,
    /// Models that tasks may use, the default first. Empty if no model is configured.
    pub models: Vec<String>,
}

/// One setting of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingView {
    /// Key in the configuration file.
    #[schema(example = "listen")]
    pub key: String,
    /// The value as text; empty if it is not set.
    pub value: String,
    /// `default`, the path of the file, the name of the variable, or `command line`.
    #[schema(example = "SANDYARD_LISTEN")]
    pub source: String,
}

/// Response of `GET /healthz` and `GET /readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthView {
    /// `ok`, or the reason why not.
    pub status: String,
}

/// Response of `GET /drivers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AvailabilityView {
    /// Drivers in the order in which `any` tries them.
    pub drivers: Vec<DriverView>,
    /// Images and their states.
    pub images: Vec<ImageView>,
}

/// One driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriverView {
    /// Name of the driver.
    pub name: String,
    /// True if the driver can start sandboxes here, which a trial proved.
    pub usable: bool,
    /// State of the trial.
    pub state: DriverState,
    /// Jobs that get sandboxes of this driver.
    pub offer: DriverOffer,
    /// Level of isolation: `none`, `container`, `gvisor` or `vm`.
    pub level: String,
    /// Mechanisms that isolate the sandbox.
    pub runtime: String,
    /// Version or kernel features of a usable driver, or the missing requirement.
    pub detail: String,
    /// How to make the driver usable.
    pub fix: Option<String>,
    /// Progress of an image that is being prepared for the driver.
    pub making: Option<String>,
}

/// What is known about a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriverState {
    /// A trial sandbox started.
    Usable,
    /// No image exists yet for a trial.
    Untried,
    /// The first trial is running.
    Trying,
    /// The driver can't start sandboxes.
    Missing,
}

/// Which jobs get sandboxes of a usable driver. A job that names the driver always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriverOffer {
    /// Every job whose requested isolation it meets.
    Always,
    /// Jobs that ask for more than a container, if no other driver provides it: this one is slow here.
    WhenNeeded,
    /// No other job: the driver has known weaknesses.
    WhenNamed,
}

/// An image of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageView {
    /// Flavour of the image.
    #[schema(example = "base")]
    pub flavour: String,
    /// True if sandboxes can start from the image.
    pub ready: bool,
    /// Progress of the build, or a description of the image.
    pub detail: String,
}
