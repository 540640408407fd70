//! The reader: one static program that reads what a sandbox wrote, in the sandbox or as a confined process of the host.
//!
//! The first argument names a role. A role confines itself (`confine`) before it reads anything, writes JSON on standard output, and
//! reports a failure as one line on standard error with exit code 1.

mod confine;
mod explain;
mod failure;
mod folder_memory;
mod job_memory;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use failure::ReaderFailure;

/// Runs a role with the arguments after its name, and returns what is left to print.
type ReaderRole = fn(&[OsString]) -> Result<Vec<u8>, ReaderFailure>;

/// Every role by name.
const ROLES: &[(&str, ReaderRole)] =
    &[("explain", explain::run), ("folder-memory", folder_memory::run), ("job-memory", job_memory::run)];

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let name = arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let role = ROLES.iter().find(|(role, _)| *role == name).map(|(_, run)| *run);
    let outcome = match role {
        Some(run) => run(&arguments[1..]),
        None => Err(ReaderFailure::Usage(format!("no role is named `{name}`"))),
    };
    let written = outcome.and_then(|bytes| {
        std::io::stdout()
            .lock()
            .write_all(&bytes)
            .map_err(|error| ReaderFailure::Read("write the result".to_owned(), error))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}
