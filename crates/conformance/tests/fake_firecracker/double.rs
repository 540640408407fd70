//! A double of Firecracker and its jailer for tests: it is whichever name it is started by.
//!
//! The double boots nothing. It checks every request against the published API (`schema`) and refuses what
//! the real one would refuse, in the same form. Where a machine would boot, a real keeper dials the socket
//! that a guest's connection would reach (`guest`). The double writes its requests to a file beside its
//! program, and reads its faults from there (`faults`).

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
