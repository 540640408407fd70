//! A double of Firecracker and its jailer for tests: it is whichever name it is started by.
//!
//! It boots nothing. It holds every request to the published API (`schema`), refuses what the real one would refuse in its form,
//! and where a machine would boot, a real keeper dials the socket that a guest's connection would reach (`guest`). What it was
//! asked is written beside its program, and what it shall do wrong is read from there (`faults`).

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test double, which fails by panicking")]

mod api;
mod faults;
mod guest;
mod jailer;
mod schema;

use faults::{Faults, own_folder};

fn main() {
    let mut arguments = std::env::args();
    let name = arguments.next().unwrap();
    let arguments: Vec<String> = arguments.collect();
    let faults = Faults::read(&own_folder());
    let version = faults.version();
    let jails = name.ends_with("jailer");
    match arguments.as_slice() {
        [only] if only == "--version" => {
            println!("{} v{version}\n", if jails { "Jailer" } else { "Firecracker" });
        }
        _ if jails => jailer::run(&arguments),
        _ => api::run(&arguments),
    }
}
