//! `imports SOURCE_DIRECTORY`: prints every import between two files of a crate.
#![expect(clippy::print_stdout, reason = "printing is the purpose")]

use std::path::PathBuf;

fn main() -> Result<(), String> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: imports SOURCE_DIRECTORY")?;
    for line in sandyard_layers::file_imports(&directory)? {
        println!("{line}");
    }
    Ok(())
}
