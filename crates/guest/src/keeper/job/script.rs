//! The job's script.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::keeper::{Keeper, scripts};

const NAME: &str = "job.sh";

/// Where it is.
pub(super) fn path(keeper: &Keeper) -> PathBuf {
    scripts::path(keeper, NAME)
}

/// Writes it anew.
pub(super) fn write(keeper: &Keeper, code: &str) -> io::Result<()> {
    scripts::write(keeper, NAME, code).map(drop)
}

/// Removes it. Left behind, it is merely read by no one.
pub(super) fn remove(keeper: &Keeper) {
    let _ = fs::remove_file(path(keeper));
}
