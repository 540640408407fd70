//! Takes up the kernels of the keeper before: their processes went on, and so may what they run.

use std::sync::Arc;

use sandyard_protocol::{ExecutionEnd, ExecutionInfo, KernelEvent, KernelState, Outcome};

use super::backend;
use super::kernel::{Document, Execution, ExecutionLimits, Finished, Target};
use super::language::KernelKind;
use super::record::Record;
use super::table::{DOCUMENT, Saved, prepare};
use crate::keeper::Keeper;
use crate::keeper::spool::SpoolError;

/// What a notebook shows for code that went with the keeper before.
const UNKNOWN_CODE: &str = "(keeper was restarted while this ran: the code is not known any more)";

/// Finds kernels and records. `job` is the execution that is the job itself, if it was begun and has not ended; it is
/// returned with the rest of its life before it.
pub(in crate::keeper) fn recover(
    keeper: &Arc<Keeper>,
    job: Option<ExecutionInfo>,
) -> Result<Option<Arc<Execution>>, SpoolError> {
    let saved: Saved = keeper.spool.load(DOCUMENT)?.unwrap_or_default();
    let mut unfinished = recover_records(keeper);
    let job = job.map(|info| {
        let limits = ExecutionLimits::default();
        Arc::new(Execution::new(info, UNKNOWN_CODE.to_owned(), limits, Target::Job))
    });
    unfinished.extend(job.clone());
    for document in saved.kernels {
        let of_this = |execution: &Arc<Execution>| execution.info.kernel == document.id;
        let (mut own, rest): (Vec<_>, Vec<_>) = unfinished.into_iter().partition(of_this);
        unfinished = rest;
        // Names rise with time, and one kernel runs one after another: only the first had been sent.
        own.sort_by_key(|execution| number(execution));
        recover_kernel(keeper, document, own);
    }
    for execution in unfinished {
        end(&execution, Outcome::Lost, "its kernel is gone");
    }
    keeper.kernels.prune();
    Ok(job)
}

/// Records of executions that are over are kept; the others are returned.
fn recover_records(keeper: &Arc<Keeper>) -> Vec<Arc<Execution>> {
    let mut unfinished = Vec::new();
    for path in keeper.kernels.left_records() {
        let Ok((record, info)) = Record::open(path.clone()) else {
            let _ = std::fs::remove_file(path);
            continue;
        };
        let over = record.is_closed();
        let limits = ExecutionLimits::default();
        let execution =
            Arc::new(Execution::new(info, UNKNOWN_CODE.to_owned(), limits, Target::Caller(record)));
        if over {
            let end = ExecutionEnd { outcome: Outcome::Lost, execution_count: None, exit: None };
            execution.finished.send_replace(Some(Finished { end, error: None }));
        } else {
            unfinished.push(execution.clone());
        }
        keeper.kernels.remember(execution);
    }
    unfinished
}

fn recover_kernel(keeper: &Arc<Keeper>, document: Document, own: Vec<Arc<Execution>>) {
    let process = document.process.as_ref().and_then(|id| keeper.processes.find(id));
    let process = process.filter(|process| process.exit().is_none());
    let mut own = own.into_iter();
    let current = own.next();
    for execution in own {
        end(&execution, Outcome::Aborted, "keeper was restarted before it ran");
    }
    let lost = match &process {
        None if document.process.is_some() => Some("was gone when keeper was restarted".to_owned()),
        _ => None,
    };
    let (kernel, mut actor) = prepare(keeper, document.clone(), None, lost);
    kernel.set_process(process.clone());
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        if let Some(process) = process {
            kernel.set_state(KernelState::Starting);
            let backend = KernelKind::of(document.language).backend;
            match backend.reconnect(&owner, &document, process.clone()).await {
                Ok(live) => {
                    actor.live = Some(live);
                    kernel.set_state(KernelState::Idle);
                }
                Err(_) => {
                    actor.lost = Some("could not be reached when keeper was restarted".into());
                    backend::stop(&process).await;
                }
            }
        }
        actor.run(current).await;
    });
}

fn end(execution: &Execution, outcome: Outcome, why: &str) {
    let end = ExecutionEnd { outcome, execution_count: None, exit: None };
    if let Target::Caller(record) = &execution.target {
        record.event(&KernelEvent::Note { text: why.to_owned() });
        record.close(&KernelEvent::Done(end.clone()));
    }
    execution.finished.send_replace(Some(Finished { end, error: None }));
}

/// `x<keeper>-<number>` as numbers.
fn number(execution: &Execution) -> (u64, u64) {
    let name = execution.info.id.0.trim_start_matches('x');
    let (keeper, number) = name.split_once('-').unwrap_or((name, ""));
    (keeper.parse().unwrap_or(0), number.parse().unwrap_or(0))
}
