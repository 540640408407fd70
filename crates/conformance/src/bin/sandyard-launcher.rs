//! The native driver's launcher as a program of its own, for hosts of the driver that are not the `sandyard` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandyard_sandbox::drivers::native::launcher_main()
}
