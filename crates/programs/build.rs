//! Builds the guest, the loop of tasks and the reader for the static target, so that this crate can carry them.
//!
//! `SANDYARD_GUEST_BINARY` names a finished guest instead, beside which the others are. The nested build has a target directory of
//! its own, because the outer one is locked by the cargo that runs this.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, process};

fn main() {
    println!("cargo::rerun-if-env-changed=SANDYARD_GUEST_BINARY");
    let guest = env::var_os("SANDYARD_GUEST_BINARY").map_or_else(build_guest, PathBuf::from);
    println!("cargo::rustc-env=SANDYARD_GUEST_BINARY={}", guest.display());
    println!("cargo::rustc-env=SANDYARD_AGENT_BINARY={}", guest.with_file_name("sandyard-agent").display());
    println!("cargo::rustc-env=SANDYARD_READER_BINARY={}", guest.with_file_name("sandyard-reader").display());
    // The conformance suite finds the loop of tasks and its own probe there.
    println!("cargo::metadata=FOLDER={}", guest.parent().unwrap_or(Path::new("/")).display());
}

fn build_guest() -> PathBuf {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let workspace = manifest.join("../..");
    for input in [
        "crates/agent",
        "crates/context",
        "crates/explain",
        "crates/guest",
        "crates/memory",
        "crates/pipe",
        "crates/protocol",
        "crates/reader",
        "crates/survey",
        "crates/syntax",
        "crates/sys",
        "crates/web",
        "web/src",
        "Cargo.lock",
        "Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={}", workspace.join(input).display());
    }
    // The processor of the program that carries them, not that of the machine that builds.
    let target = format!("{}-unknown-linux-musl", variable("CARGO_CFG_TARGET_ARCH"));
    let target_dir = outer_target_dir().join("guest-build");
    let status = Command::new(variable("CARGO"))
        .current_dir(&workspace)
        .args([
            "build",
            "--package",
            "sandyard-guest",
            "--package",
            "sandyard-agent",
            "--package",
            "sandyard-reader",
        ])
        .arg("--bins")
        .args(["--profile", "guest", "--target", &target, "--locked", "--quiet"])
        .env("CARGO_TARGET_DIR", &target_dir)
        .env("SANDYARD_WEB_CACHE", outer_target_dir().join("web"))
        // Flags and wrappers of the outer build are meant for the outer target.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!(
            "cargo::error=the guest could not be built for {target}; are the target and musl-gcc there? scripts/setup.sh build"
        );
        process::exit(1);
    }
    target_dir.join(&target).join("guest").join("sandyard-guest")
}

/// The outer target directory, found from OUT_DIR: `<target>/<profile>/build/<package>/out`.
fn outer_target_dir() -> PathBuf {
    let out = PathBuf::from(variable("OUT_DIR"));
    out.ancestors().nth(4).map(Path::to_owned).unwrap_or(out)
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| {
        println!("cargo::error=cargo did not set {name}");
        process::exit(1)
    })
}
