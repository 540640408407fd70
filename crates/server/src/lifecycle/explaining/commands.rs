//! Commands that succeeded in a job, as far as the sandbox still knows them.

use sandyard_explain::JobNotes;
use sandyard_protocol::{EndReason, ProcessInfo};
use sandyard_sandbox::machine::Machine;

use super::budget::FactsBudget;
use crate::job::JobRow;
use crate::store::StoredRequest;

/// Commands that are noted. The page shows the last few of them that are worth it.
const MAX_COMMANDS: usize = 200;

/// Notes what ran in the sandbox and ended with status 0: commands of people and tools, and the job's own.
/// Without an answer in time the page names the commands of manifests alone.
pub(super) async fn job_notes(
    row: &JobRow,
    request: Option<&StoredRequest>,
    machine: &Machine,
    budget: FactsBudget,
) -> JobNotes {
    let listed = budget.within(machine.list_processes()).await;
    let listed = listed.and_then(Result::ok).unwrap_or_default();
    let own = request
        .filter(|request| request.job.kind == sandyard_api::JobKind::Shell && row.exit_code == Some(0))
        .map(|request| request.job.code.clone());
    // Newest first; the page wants them in the order in which they ran.
    let ran = listed.iter().rev().filter_map(succeeded).map(str::to_owned);
    let commands: Vec<String> = own.into_iter().chain(ran).collect();
    let first = commands.len().saturating_sub(MAX_COMMANDS);
    JobNotes { succeeded_commands: commands[first..].to_vec(), of_job: true }
}

/// The text that bash was given, if it ended well by itself. Programs of the host's own do not begin with bash.
fn succeeded(process: &ProcessInfo) -> Option<&str> {
    let exit = process.exit.as_ref()?;
    let well = exit.code == 0 && exit.signal.is_none() && exit.reason == EndReason::Own;
    let [program, .., option, text] = process.argv.as_slice() else { return None };
    (well && program == "bash" && option == "-c").then_some(text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(argv: &[&str], code: i32) -> ProcessInfo {
        let info = serde_json::json!({
            "id": "p1",
            "pid": 1,
            "argv": argv,
            "exit": { "code": code, "signal": null, "reason": "own" },
        });
        serde_json::from_value(info).unwrap()
    }

    #[test]
    fn only_commands_that_ended_well_are_noted() {
        assert_eq!(succeeded(&process(&["bash", "-c", "pytest"], 0)), Some("pytest"));
        assert_eq!(succeeded(&process(&["bash", "--rcfile", "step=1", "-c", "make"], 0)), Some("make"));
        assert_eq!(succeeded(&process(&["bash", "-c", "pytest"], 1)), None);
        assert_eq!(succeeded(&process(&["/usr/bin/env", "-i", "bash", "-c", "x"], 0)), None);
        assert_eq!(succeeded(&process(&["bash"], 0)), None);
    }
}
