//! Entry point: the role is the first argument. Any failure is one JSON line on the console and exit code 1.

use std::path::PathBuf;
use std::process::ExitCode;

use sandyard_guest::boot::BootFailure;
use sandyard_guest::keeper::desktop::hands;
use sandyard_guest::keeper::files::worker;
use sandyard_guest::{init, keeper_role, machine, spawner};

/// A role's whole life.
type Role = fn() -> Result<(), BootFailure>;

/// Every role by name.
const ROLES: &[(&str, Role)] = &[
    ("machine", machine::run),
    ("init", run_init),
    ("spawner", spawner::run),
    ("keeper", keeper_role::run),
    (worker::ROLE, run_file_worker),
    (worker::CHANGES_ROLE, run_file_worker),
    (hands::worker::ROLE, run_desktop_worker),
    (hands::job::ROLE, run_gui_job),
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let outcome = match ROLES.iter().find(|(role, _)| *role == name) {
        Some((_, run)) => run(),
        None => Err(BootFailure::plain("role", format!("no role is named `{name}`"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            ExitCode::FAILURE
        }
    }
}

/// A second argument names init's boot document; without one it is on a descriptor.
fn run_init() -> Result<(), BootFailure> {
    init::run(std::env::args_os().nth(2).map(PathBuf::from).as_deref())
}

fn run_desktop_worker() -> Result<(), BootFailure> {
    // What scripts run begins there; a job that closed its own folder gets the root.
    let _ = std::env::set_current_dir(workspace("desktop")?);
    hands::worker::run().map_err(|error| BootFailure::new("desktop", "the desktop worker", error))
}

fn run_gui_job() -> Result<(), BootFailure> {
    // The job's own words are told already; its exit code is what counts.
    hands::job::run().or_else(|_| std::process::exit(1))
}

/// A worker's second argument.
fn workspace(stage: &'static str) -> Result<PathBuf, BootFailure> {
    let path = std::env::args_os().nth(2).map(PathBuf::from);
    path.ok_or_else(|| BootFailure::plain(stage, "no workspace is named"))
}

fn run_file_worker() -> Result<(), BootFailure> {
    worker::run(&workspace("files")?).map_err(|error| BootFailure::new("files", "the file worker", error))
}
