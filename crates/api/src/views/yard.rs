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
    /// Whether it can start sandboxes here.
    pub usable: bool,
    /// Its place in the order of floors: `none`, `container`, `gvisor` or `vm`.
    pub level: String,
    /// The means.
    pub runtime: String,
    /// Version or kernel features if usable, what is missing if not.
    pub detail: String,
    /// What a person can do about it.
    pub fix: Option<String>,
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
