//! `changes.patch`: what a job changed in the files or the repository that it started from; a task may start from nothing.
//!
//! The difference is made in the guest, where the tree is, by git from the image on a git directory of its own; the start comes
//! from the host, so the job can't have changed it. What comes back is bytes for the download, bounded and not looked at.

use std::path::Path;
use std::time::Duration;

use sandyard_sandbox::machine::Machine;

use super::guest_scripts::{GuestScript, ScriptError};
use super::owner::JobOwner;
use super::preparing::is_object_id;
use crate::artifacts::HostFile;
use crate::error_chain::chain;
use crate::job::InputFile;
use crate::job::JobRow;
use crate::store::StoreError;

/// A name that says what it is for.
const NAME: &str = "changes.patch";
/// How long git may look; a tree that takes longer is not compared.
const TIME: Duration = Duration::from_secs(60);
/// A patch that a person or a program may want to read.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The patch, or why there is none.
#[derive(Debug)]
pub(super) enum PatchResult {
    /// Nothing to compare with, or nothing changed.
    None,
    /// There are some.
    Patch(HostFile),
    /// It could not be made.
    Missing(String),
}

/// What the workspace was when the job began.
enum StartTree {
    /// A tree in a pack of git's.
    Pack { tree: String, pack: tokio::fs::File },
    /// The files of the request, as git's fast-import reads them.
    Files(Vec<u8>),
}

impl JobOwner {
    pub(super) async fn changes(&self, row: &JobRow, machine: &Machine) -> Result<PatchResult, StoreError> {
        let Some(request) = self.context.store.request(&row.id).await? else { return Ok(PatchResult::None) };
        let start = match (&request.job.git, request.files.is_empty()) {
            (Some(_), _) => match kept(&self.context.layout.start(&row.id)).await {
                Some(start) => start,
                // The events say why.
                None => return Ok(PatchResult::None),
            },
            (None, true) if row.task.is_none() => return Ok(PatchResult::None),
            (None, _) => StartTree::Files(stream(&request.files)),
        };
        Ok(compare(machine, start).await)
    }
}

async fn kept(folder: &Path) -> Option<StartTree> {
    let tree = tokio::fs::read_to_string(folder.join("tree")).await.ok()?;
    let pack = tokio::fs::File::open(folder.join("pack")).await.ok()?;
    is_object_id(&tree).then_some(StartTree::Pack { tree, pack })
}

async fn compare(machine: &Machine, start: StartTree) -> PatchResult {
    let (tree, input): (_, Box<dyn tokio::io::AsyncRead + Send + Unpin>) = match start {
        StartTree::Pack { tree, pack } => (tree, Box::new(pack)),
        StartTree::Files(stream) => (String::new(), Box::new(std::io::Cursor::new(stream))),
    };
    // One more than may be kept tells a whole patch from a cut one.
    let most = MOST_BYTES + 1;
    let script = GuestScript {
        text: include_str!("scripts/changes.sh"),
        arguments: &[&tree, &most.to_string()],
        time: TIME,
        most_output: most,
    };
    let mut patch = Vec::new();
    match script.run(machine, input, &mut patch).await {
        Ok(ran) if ran.succeeded() && patch.is_empty() => PatchResult::None,
        Ok(ran) if ran.succeeded() && patch.len() as u64 <= MOST_BYTES => {
            PatchResult::Patch(HostFile { name: NAME, bytes: patch.into() })
        }
        Ok(ran) if ran.succeeded() => missing("the changes are larger than 16 MiB"),
        Ok(_) => missing("git could not compare the workspace with its start"),
        Err(ScriptError::TooMuch(_)) => missing("the changes are larger than 16 MiB"),
        Err(error) => missing(&chain(&error)),
    }
}

fn missing(why: &str) -> PatchResult {
    PatchResult::Missing(format!("{NAME}: {why}"))
}

/// Files as one commit for git's fast-import. Contents are counted, not quoted; paths are quoted as git's own are.
fn stream(files: &[InputFile]) -> Vec<u8> {
    let mut stream = b"commit refs/heads/start\ncommitter start <> 0 +0000\ndata 0\n".to_vec();
    for file in files {
        stream.extend(
            format!("M 100644 inline {}\ndata {}\n", quoted(&file.path), file.bytes.len()).as_bytes(),
        );
        stream.extend(&file.bytes);
        stream.push(b'\n');
    }
    stream.extend(b"done\n");
    stream
}

fn quoted(path: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in path.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            other => quoted.push_str(&format!("\\{other:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_not_break_out_of_the_stream() {
        assert_eq!(quoted("a b/ü\n\"M\\"), "\"a b/\\303\\274\\012\\\"M\\\\\"");
        let files = [InputFile { path: "a".into(), bytes: b"M 100644 inline b\ndata 0\n".to_vec() }];
        let stream = String::from_utf8(stream(&files)).unwrap();
        assert!(stream.contains("inline \"a\"\ndata 25\nM 100644 inline b"), "{stream}");
    }
}
