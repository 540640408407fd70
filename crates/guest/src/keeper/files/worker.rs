//! A file worker: the part of keeper that touches the workspace, run as the job's own user.
//!
//! Keeper has another uid and no capabilities: it could not write the job's files, and it could read files that the job may not. A
//! worker has the job's rights and nothing else. Keeper starts it through the spawner, sends it one request at a time on its
//! standard input, and relays its answers without trusting them.

use std::io::{Read, Write};
use std::os::fd::AsFd as _;
use std::path::Path;

use sandyard_pipe::Frame;
use sandyard_protocol::{Reply, Request};

use super::changes::KnownFiles;
use super::error::FileError;
use super::replace::{self, Replace};
use super::wire::WorkerWire;
use super::workspace::Workspace;
use super::{change, edit, export, look, remove, search, write};

/// The role's name, as the first argument of the guest's program.
pub const ROLE: &str = "files";
/// The role of the worker that looks for changes: the same code, in a process of its own because it remembers the last state.
pub const CHANGES_ROLE: &str = "changes";

/// One file operation. Sends everything but the closing frame.
pub(super) type FileOperation = fn(&Workspace, &mut WorkerWire<'_>, &Request) -> Result<(), FileError>;

/// Serves requests until keeper closes the input. `root` is the workspace.
pub fn serve(root: &Path, input: &mut dyn Read, output: &mut dyn Write) -> std::io::Result<()> {
    let mut wire = WorkerWire::new(input, output);
    let mut remembered = KnownFiles::default();
    loop {
        match serve_one(root, &mut wire, &mut remembered) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(FileError::Pipe(error)) => return Err(error),
            Err(error) => return Err(std::io::Error::other(error)),
        }
    }
}

/// Restricts this process, then serves on standard input and output.
pub fn run(root: &Path) -> std::io::Result<()> {
    // The job has the same uid: without this it could trace the worker and answer in its name.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // Not `Stdout`, which holds back bytes after the last newline.
    let mut output = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    serve(root, &mut std::io::stdin().lock(), &mut output)
}

/// One request from its first frame to both closing frames; false when there is no more.
fn serve_one(root: &Path, wire: &mut WorkerWire<'_>, remembered: &mut KnownFiles) -> Result<bool, FileError> {
    let message = match wire.receive()? {
        None => return Ok(false),
        Some(Frame::Message(message)) => Some(message),
        Some(Frame::Data(_)) => None,
    };
    // Keeper's own request comes first. The host can't send it: keeper passes on only requests that it has parsed as `Request`.
    if let Some(own) = message.as_ref().and_then(|message| serde_json::from_slice::<Replace>(message).ok()) {
        serve_own(root, wire, &own)?;
        return end(wire);
    }
    let request = message.and_then(|message| serde_json::from_slice::<Request>(&message).ok());
    if request == Some(Request::WorkspaceChanges) {
        let answer = Workspace::open(root).and_then(|workspace| remembered.look(&workspace));
        wire.send_message(&answer.map_or_else(
            |error| Reply::Failed(error.to_guest()),
            |changes| Reply::Changes(Box::new(changes)),
        ))?;
        return end(wire);
    }
    let outcome = match request.as_ref().and_then(|request| Some((operation(request)?, request))) {
        None => Err(FileError::BadRequest("not a file operation")),
        Some((operation, request)) => {
            Workspace::open(root).and_then(|workspace| operation(&workspace, wire, request))
        }
    };
    match outcome {
        Ok(()) => {}
        Err(FileError::Pipe(error)) => return Err(FileError::Pipe(error)),
        Err(error) => wire.send_message(&Reply::Failed(error.to_guest()))?,
    }
    end(wire)
}

/// A request of keeper's own.
fn serve_own(root: &Path, wire: &mut WorkerWire<'_>, request: &Replace) -> Result<(), FileError> {
    match Workspace::open(root).and_then(|workspace| replace::replace(&workspace, wire, request)) {
        Err(FileError::Pipe(error)) => Err(FileError::Pipe(error)),
        Err(error) => replace::refuse(wire, &error),
        Ok(()) => Ok(()),
    }
}

/// Sends the closing frame, and reads input up to the host's.
fn end(wire: &mut WorkerWire<'_>) -> Result<bool, FileError> {
    wire.send_end()?;
    // Input that the host still sends for an operation that is over is skipped, so that the next request starts at a frame.
    while !wire.input_ended() {
        if wire.receive()?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The operation for each request.
pub(super) fn operation(request: &Request) -> Option<FileOperation> {
    Some(match request {
        Request::Stat { .. } => look::stat,
        Request::List { .. } => look::list,
        Request::Read { .. } => look::read,
        Request::Write { .. } => write::write,
        Request::Edit { .. } => edit::edit,
        Request::Move { .. } => change::move_path,
        Request::MakeDirectory { .. } => change::make_directory,
        Request::Remove { .. } => remove::remove,
        Request::Search { .. } => search::search,
        Request::Export { .. } => export::export,
        _ => return None,
    })
}
