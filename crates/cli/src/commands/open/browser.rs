//! Hands an address to the person's browser, if there is one.

use std::process::{Command, Stdio};

/// Opens it where a desktop is; elsewhere the printed address is enough.
pub(super) fn show(address: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = || Stdio::null();
    // Not waited for: a browser that is started by it lives on.
    let _ = Command::new(opener).arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
}
