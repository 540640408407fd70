//! Entry point: runs the role that the first argument names. A failure is one JSON line on the console and exit code 1.

use std::path::PathBuf;
use std::process::ExitCode;

use sandyard_guest::boot::BootFailure;
use sandyard_guest::keeper::desktop::automation;
use sandyard_guest::keeper::files::worker;
use sandyard_guest::{init, keeper, machine, spawner};

/// Runs a role to its end.
type RoleFunction = fn() -> Result<(), BootFailure>;

/// Every role by name; `lib.rs` describes them.
const ROLES: &[(&str, RoleFunction)] = &[
    ("machine", machine::run),
    ("init", run_init),
    ("spawner", spawner::run),
    ("keeper", keeper::role::run),
    (worker::ROLE, run_file_worker),
    (worker::CHANGES_ROLE, run_file_worker),
    (automation::worker::ROLE, run_desktop_worker),
    (automation::job::ROLE, run_gui_job),
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
            failure.print();
            ExitCode::FAILURE
        }
    }
}

/// The second argument is the path of init's boot document. Without it, the document is on a descriptor.
fn run_init() -> Result<(), BootFailure> {
    init::run(std::env::args_os().nth(2).map(PathBuf::from).as_deref())
}

fn run_desktop_worker() -> Result<(), BootFailure> {
    // Scripts run in the workspace. If the job closed its own directory, they run in the root directory.
    let _ = std::env::set_current_dir(workspace("desktop")?);
    automation::worker::run().map_err(|error| BootFailure::new("desktop", "the desktop worker", error))
}

fn run_gui_job() -> Result<(), BootFailure> {
    // The job has printed its failure already; only its exit code counts.
    automation::job::run().or_else(|_| std::process::exit(1))
}

/// The workspace of a worker: its second argument.
fn workspace(stage: &'static str) -> Result<PathBuf, BootFailure> {
    let path = std::env::args_os().nth(2).map(PathBuf::from);
    path.ok_or_else(|| BootFailure::plain(stage, "no workspace is named"))
}

fn run_file_worker() -> Result<(), BootFailure> {
    worker::run(&workspace("files")?).map_err(|error| BootFailure::new("files", "the file worker", error))
}
