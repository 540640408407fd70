//! Moves a process of the launcher into control groups.

use std::path::PathBuf;

use super::step::{NativeFailure, NativeStep, NativeSteps};

/// Moves this process into a group of each hierarchy.
pub(super) fn enter_groups(procs: &[PathBuf], fail_at: Option<NativeStep>) -> Result<(), NativeFailure> {
    let mut steps = NativeSteps::new(fail_at);
    for path in procs {
        steps.run(NativeStep::EnterControlGroups, path.display(), || std::fs::write(path, "0"))?;
    }
    Ok(())
}
