//! Gateways: serve the streams that a sandbox opens to the outside, on the host, where the policy and the keys are.
//!
//! `egress` connects to the network, `model` calls models, `journal` keeps a task's journal.

pub(crate) mod egress;
pub(crate) mod journal;
pub(crate) mod model;
pub(crate) mod owner_audit;

use std::sync::Arc;

use sandyard_sandbox::machine::{Machine, MachineError, OpenedByGuest};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

/// Ends the tunnels of a job when its owner stops following it: from then on nobody would record their bytes.
struct EndTunnels(Arc<egress::EgressGateway>);

impl Drop for EndTunnels {
    fn drop(&mut self) {
        self.0.end_tunnels();
    }
}

/// The gateways that only a task has.
#[derive(Clone)]
pub(crate) struct TaskGateways {
    pub(crate) journal: Arc<journal::JournalService>,
    pub(crate) model: Arc<model::ModelGateway>,
}

/// Serves every stream that a guest opens, until its link is gone. Dropping the future ends all streams.
pub(crate) async fn serve(
    machine: Arc<Machine>,
    egress: Arc<egress::EgressGateway>,
    task: Option<TaskGateways>,
) {
    let _end = EndTunnels(Arc::clone(&egress));
    let mut streams = JoinSet::new();
    // Kept across turns of the loop: dropping it would reset a stream whose purpose is not read yet.
    let opened = machine.next_asked();
    tokio::pin!(opened);
    loop {
        // New streams, and the removal of finished ones. Neither branch starves: the second is closed while the set is empty.
        // Cancelling `join_next` loses nothing.
        tokio::select! {
            stream = &mut opened => {
                opened.set(machine.next_asked());
                match stream {
                Ok(OpenedByGuest::Egress { stream, early }) => {
                    let gateway = Arc::clone(&egress);
                    streams.spawn(async move {
                        let (read, write) = tokio::io::split(stream);
                        gateway.serve(std::io::Cursor::new(early).chain(read), write).await;
                    });
                }
                // A job that is not a task has neither models nor a journal: its stream is dropped.
                Ok(OpenedByGuest::Model { stream, early }) => if let Some(task) = task.clone() {
                    streams.spawn(async move {
                        let (read, write) = tokio::io::split(stream);
                        task.model.serve(tokio::io::join(std::io::Cursor::new(early).chain(read), write)).await;
                    });
                },
                Ok(OpenedByGuest::Desk { stream, early }) => if let Some(task) = task.clone() {
                    streams.spawn(async move {
                        let (read, write) = tokio::io::split(stream);
                        task.journal.serve(tokio::io::join(std::io::Cursor::new(early).chain(read), write)).await;
                    });
                },
                // The owner takes the event stream before this loop runs; another one is dropped, as is a malformed stream.
                Ok(OpenedByGuest::Events(_)) | Err(MachineError::Deadline | MachineError::Malformed(_) | MachineError::Guest(_) | MachineError::Finishing) => {}
                Err(MachineError::Lost) => return,
                }
            }
            // Removes finished streams, so that the set does not grow.
            Some(_) = streams.join_next(), if !streams.is_empty() => {}
        }
    }
}
