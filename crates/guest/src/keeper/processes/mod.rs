//! Processes that callers start in the machine: reconnectable output, input, signals, terminals, time limits.
//!
//! `table` knows them all, `process` is one, `supervise` follows it to its end, `attach` serves a stream on it. A process
//! belongs to keeper, not to the stream that started it: streams come and go.

mod attach;
mod command;
mod input;
mod process;
mod supervise;
mod table;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use sandyard_protocol::{GuestError, GuestErrorCode, OutputOffsets, ProcessId, Reply, Request, StartProcess};

pub(super) use command::{check_environment, environment, main_command};
pub(super) use process::{Descriptors, Ending, Process};
pub(super) use supervise::{Limits, Scope, Supervision};
pub(super) use table::{Processes, recover};

use super::Keeper;
use super::link::{HostStream, reply};

/// Serves the process requests.
pub(super) async fn serve(keeper: Arc<Keeper>, request: Request, mut stream: HostStream) {
    match request {
        Request::StartProcess(start) => match table::start(&keeper, start, None).await {
            Ok((process, guard)) => {
                attach::serve(&keeper, &process, OutputOffsets::default(), stream, guard).await
            }
            Err(error) => reply(&mut stream, &Reply::Failed(error)).await,
        },
        Request::AttachProcess { process, from } => match keeper.processes.find(&process) {
            Some(process) => attach::serve(&keeper, &process, from, stream, None).await,
            None => reply(&mut stream, &Reply::Failed(unknown(&process))).await,
        },
        Request::SignalProcess { process, signal: number } => {
            let answer = signal(&keeper, &process, number).await;
            reply(&mut stream, &answer.map_or_else(Reply::Failed, |()| Reply::Done)).await;
        }
        Request::ListProcesses => {
            let list = keeper.processes.list();
            reply(&mut stream, &Reply::Processes(list)).await;
        }
        _ => {}
    }
}

/// Starts a process for a service of keeper's own; it belongs to no stream.
pub(super) async fn start(keeper: &Arc<Keeper>, start: StartProcess) -> Result<Arc<Process>, GuestError> {
    table::start(keeper, start, None).await.map(|(process, _)| process)
}

/// Starts one that finds a descriptor of keeper's at its standard input.
pub(super) async fn start_with_input(
    keeper: &Arc<Keeper>,
    start: StartProcess,
    input: OwnedFd,
) -> Result<Arc<Process>, GuestError> {
    table::start(keeper, start, Some(input)).await.map(|(process, _)| process)
}

async fn signal(keeper: &Keeper, id: &ProcessId, signal: i32) -> Result<(), GuestError> {
    let process = keeper.processes.find(id).ok_or_else(|| unknown(id))?;
    process.signal(keeper.host.as_ref(), signal).await
}

fn unknown(id: &ProcessId) -> GuestError {
    GuestError::new(GuestErrorCode::NotFound, format!("there is no process `{id}`"))
}
