//! R24: a job that flushes everything flushes nothing of the host or of its neighbours. Its own disk is flushed all the same.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError, probe_program};

/// Size of the host's file that nobody has flushed.
const UNWRITTEN_BYTES: usize = 4 * 1024 * 1024;
/// Another process of the host may flush the file at any time, so one attempt proves nothing.
const ATTEMPTS: usize = 5;

/// Has a sandbox with the probe flush, while the host has a file that waits to be written.
pub(super) async fn flushing(
    subject: &DriverSubject,
    session: &SandboxSession,
) -> Result<Vec<CheckOutcome>, SuiteError> {
    let file = subject.workspaces.join("unwritten");
    let mut outcomes = Vec::new();
    for command in ["sync", "/workspace/probe sync"] {
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS {
            fs::write(&file, vec![1; UNWRITTEN_BYTES]).map_err(SuiteError::Workspace)?;
            let ran = session.shell(command).await?;
            seen.push((ran.exit.code, dirty_pages(&file)?));
            fs::remove_file(&file).map_err(SuiteError::Workspace)?;
        }
        // The kernel can't tell before 6.5.
        let spared = seen.iter().any(|(code, pages)| *code == 0 && !matches!(pages.as_str(), "0"));
        outcomes.push(CheckOutcome::new(format!("R24.{command}"), spared, format!("{seen:?}")));
    }
    let own = session.shell("echo kept > kept && sync kept && sync -d kept && sync -f kept").await?;
    outcomes.push(CheckOutcome::new("R24.own_disk", own.exit.code == 0, format!("{own:?}")));
    Ok(outcomes)
}

fn dirty_pages(file: &Path) -> Result<String, SuiteError> {
    let told = Command::new(probe_program()).arg("dirty").arg(file).output().map_err(SuiteError::Probe)?;
    Ok(String::from_utf8_lossy(&told.stdout).trim().to_owned())
}
