//! `changes.patch`: the difference between the workspace and its start, which is a repository, the files of the request, or,
//! for a task, perhaps nothing.
//!
//! Git from the image makes the difference in the guest, where the tree is, with a git directory of its own. The start comes
//! from the host, so the job can't have changed it. The patch is bounded and never interpreted by the host.

use std::time::Duration;

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::machine::Machine;

use super::guest_scripts::{GuestScript, ScriptError};
use super::owner::JobOwner;
use super::start_tree::StartTree;
use crate::artifacts::HostFile;
use crate::job::JobRow;
use crate::store::StoredRequest;

/// Name of the patch in the download.
const PATCH_NAME: &str = "changes.patch";
/// Time for the comparison; a tree that takes longer gets no patch.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest patch that is still useful to a person or a program.
const MAX_PATCH_BYTES: u64 = 16 * 1024 * 1024;

/// The patch, or why there is none.
#[derive(Debug)]
pub(super) enum PatchResult {
    /// Nothing to compare with, or nothing changed.
    None,
    /// The difference, as git prints it.
    Patch(HostFile),
    /// The patch could not be made, for this reason.
    Missing(String),
}

impl JobOwner {
    /// Makes the patch in a machine that has the workspace.
    pub(super) async fn make_patch(
        &self,
        row: &JobRow,
        request: &StoredRequest,
        machine: &Machine,
    ) -> PatchResult {
        match self.start_tree(row, request).await {
            Some(start) => compare(machine, start).await,
            None => PatchResult::None,
        }
    }
}

async fn compare(machine: &Machine, start: StartTree) -> PatchResult {
    let (tree, input) = start.into_input();
    // One byte more than allowed tells a whole patch from a cut one.
    let most = MAX_PATCH_BYTES + 1;
    let script = GuestScript {
        text: include_str!("scripts/changes.sh"),
        arguments: &[&tree, &most.to_string()],
        time: COMPARE_TIMEOUT,
        most_output: most,
    };
    let mut patch = Vec::new();
    match script.run(machine, input, &mut patch).await {
        Ok(ran) if ran.succeeded() && patch.is_empty() => PatchResult::None,
        Ok(ran) if ran.succeeded() && patch.len() as u64 <= MAX_PATCH_BYTES => {
            PatchResult::Patch(HostFile { name: PATCH_NAME, bytes: patch.into() })
        }
        Ok(ran) if ran.succeeded() => missing("the changes are larger than 16 MiB"),
        Ok(_) => missing("git could not compare the workspace with its start"),
        Err(ScriptError::TooMuch(_)) => missing("the changes are larger than 16 MiB"),
        Err(error) => missing(&ErrorChain(&error).to_string()),
    }
}

fn missing(why: &str) -> PatchResult {
    PatchResult::Missing(format!("{PATCH_NAME}: {why}"))
}
