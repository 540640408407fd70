//! Passes on where the build script of `sandyard-programs` put the guest's programs.

use std::env;
use std::process;

fn main() {
    let Some(folder) = env::var_os("DEP_SANDYARD_GUEST_FOLDER") else {
        println!("cargo::error=the build script of sandyard-programs names no folder of guest programs");
        process::exit(1);
    };
    println!("cargo::rustc-env=SANDYARD_GUEST_FOLDER={}", folder.display());
}
