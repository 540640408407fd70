//! Processes that callers start in the machine: reconnectable output, input, signals, terminals, time limits.
//!
//! `table` knows them all and starts them, `process` is one, `supervise` follows it to its end, `attach` serves a stream on it. A
//! process belongs to keeper, not to the stream that started it: streams come and go.

mod attach;
mod command;
mod input;
mod process;
mod record;
mod recover;
mod supervise;
mod table;

use std::sync::Arc;

use sandyard_protocol::{GuestError, GuestErrorCode, OutputOffsets, ProcessId, Reply, Request};

pub(super) use command::check_environment;
pub(super) use process::{Ending, ManagedProcess, ProcessDescriptors};
pub(super) use supervise::{EndObserver, KillScope, ProcessLimits, Supervision};
pub(super) use table::{ProcessCollaborators, Processes};

use super::stream::{HostStream, reply};

/// Serves the process requests.
pub(super) async fn serve(processes: Arc<Processes>, request: Request, mut stream: HostStream) {
    let host = processes.host();
    match request {
        Request::StartProcess(start) => match processes.start_guarded(start, None).await {
            Ok((process, opening)) => {
                attach::serve(host, &process, OutputOffsets::default(), stream, opening).await
            }
            Err(error) => reply(&mut stream, &Reply::Failed(error)).await,
        },
        Request::AttachProcess { process, from } => match processes.find(&process) {
            Some(process) => {
                attach::serve(host, &process, from, stream, attach::StreamOpening::default()).await
            }
            None => reply(&mut stream, &Reply::Failed(unknown(&process))).await,
        },
        Request::SignalProcess { process, signal: number } => {
            let answer = signal(&processes, &process, number).await;
            reply(&mut stream, &answer.map_or_else(Reply::Failed, |()| Reply::Done)).await;
        }
        Request::ListProcesses => {
            let list = processes.list();
            reply(&mut stream, &Reply::Processes(list)).await;
        }
        _ => {}
    }
}

async fn signal(processes: &Processes, id: &ProcessId, signal: i32) -> Result<(), GuestError> {
    let process = processes.find(id).ok_or_else(|| unknown(id))?;
    process.signal(processes.host(), signal).await
}

fn unknown(id: &ProcessId) -> GuestError {
    GuestError::new(GuestErrorCode::NotFound, format!("there is no process `{id}`"))
}
