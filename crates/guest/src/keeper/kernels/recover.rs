//! Takes up the kernels of the earlier keeper: their processes went on, and their executions may have.

use std::sync::Arc;

use sandyard_protocol::{ExecutionEnd, KernelEvent, KernelState, Outcome};

use super::backend;
use super::kernel::{Execution, ExecutionLimits, ExecutionTarget, FinishedExecution, KernelDocument};
use super::language::KernelKind;
use super::record::ExecutionRecord;
use super::registry::KernelRegistry;
use super::service::{KernelServices, Kernels};
use crate::keeper::core::KeeperCore;
use crate::keeper::spool::SpoolError;

/// Source of a notebook cell whose code was lost with the earlier keeper.
const UNKNOWN_CODE: &str = "(keeper was restarted while this ran: the code is not known any more)";

/// Opens the kernel service and takes up the kernels and records of the earlier keeper. Also returns the execution that is the job
/// itself, if it was begun and has not ended. Processes must have been recovered before.
pub(in crate::keeper) fn recover(
    core: Arc<KeeperCore>,
    services: KernelServices,
) -> Result<(Kernels, Option<Arc<Execution>>), SpoolError> {
    let (service, kernels) = Kernels::open(core, services)?;

    let mut unfinished = recover_records(&service.context().registry);
    let job = service.context().job.execution().map(|info| {
        let limits = ExecutionLimits::default();
        Arc::new(Execution::new(info, UNKNOWN_CODE.to_owned(), limits, ExecutionTarget::Job))
    });
    unfinished.extend(job.clone());
    for document in kernels {
        let of_this = |execution: &Arc<Execution>| execution.info.kernel == document.id;
        let (mut own, rest): (Vec<_>, Vec<_>) = unfinished.into_iter().partition(of_this);
        unfinished = rest;
        // Execution names rise with time, and a kernel runs one execution after another: only the first had been sent.
        own.sort_by_key(|execution| number(execution));
        recover_kernel(&service, document, own);
    }
    for execution in unfinished {
        end(&execution, Outcome::Lost, "its kernel is gone");
    }
    service.context().registry.prune();
    Ok((service, job))
}

/// Opens all records. Returns the executions that had not ended; the ended ones are only remembered.
fn recover_records(registry: &KernelRegistry) -> Vec<Arc<Execution>> {
    let mut unfinished = Vec::new();
    for path in registry.left_records() {
        let Ok((record, info)) = ExecutionRecord::open(path.clone()) else {
            let _ = std::fs::remove_file(path);
            continue;
        };
        let over = record.is_closed();
        let limits = ExecutionLimits::default();
        let execution =
            Arc::new(Execution::new(info, UNKNOWN_CODE.to_owned(), limits, ExecutionTarget::Caller(record)));
        if over {
            let end = ExecutionEnd { outcome: Outcome::Lost, execution_count: None, exit: None };
            execution.finished.send_replace(Some(FinishedExecution { end, error: None }));
        } else {
            unfinished.push(execution.clone());
        }
        registry.remember(execution);
    }
    unfinished
}

fn recover_kernel(service: &Kernels, document: KernelDocument, own: Vec<Arc<Execution>>) {
    let context = service.context().clone();
    let process = document.process.as_ref().and_then(|id| context.processes.find_running(id));
    let mut own = own.into_iter();
    let current = own.next();
    for execution in own {
        end(&execution, Outcome::Aborted, "keeper was restarted before it ran");
    }
    let lost = match &process {
        None if document.process.is_some() => Some("was gone when keeper was restarted".to_owned()),
        _ => None,
    };
    let (kernel, mut actor) = service.prepare(document.clone(), lost);
    kernel.set_process(process.clone());
    let owner = context.clone();
    context.core.tasks.spawn(async move {
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
    if let ExecutionTarget::Caller(record) = &execution.target {
        record.event(&KernelEvent::Note { text: why.to_owned() });
        record.close(&KernelEvent::Done(end.clone()));
    }
    execution.finished.send_replace(Some(FinishedExecution { end, error: None }));
}

/// Parses `x<keeper>-<number>`. As numbers the names sort by time; as text, `x10` would come before `x9`.
fn number(execution: &Execution) -> (u64, u64) {
    let name = execution.info.id.0.trim_start_matches('x');
    let (keeper, number) = name.split_once('-').unwrap_or((name, ""));
    (keeper.parse().unwrap_or(0), number.parse().unwrap_or(0))
}
