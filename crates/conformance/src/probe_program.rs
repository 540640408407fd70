//! Path of the probe program.

use std::path::{Path, PathBuf};

/// Returns the path of the probe program.
pub fn probe_program() -> PathBuf {
    Path::new(env!("SANDYARD_GUEST_FOLDER")).join("sandyard-probe")
}
