//! Gateways: what a sandbox asks of the world, answered on the host, where the policy and the keys are.

pub(crate) mod desk;
pub(crate) mod egress;
pub(crate) mod model;
pub(crate) mod notes;

use std::sync::Arc;

use sandyard_sandbox::machine::{Asked, Machine, MachineError};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

/// Ends the tunnels of a job that is no longer followed: nobody would record them.
struct EndTunnels(Arc<egress::Gateway>);

impl Drop for EndTunnels {
    fn drop(&mut self) {
        self.0.end_tunnels();
    }
}

/// What a task has beside a way to the network.
#[derive(Clone)]
pub(crate) struct TaskGateways {
    pub(crate) desk: Arc<desk::Desk>,
    pub(crate) model: Arc<model::Gateway>,
}

/// Serves every stream that a guest opens, until its link is gone. Dropping this ends them all.
pub(crate) async fn serve(machine: Arc<Machine>, egress: Arc<egress::Gateway>, task: Option<TaskGateways>) {
    let _end = EndTunnels(Arc::clone(&egress));
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            asked = machine.next_asked() => match asked {
                Ok(Asked::Egress { stream, early }) => {
                    let gateway = Arc::clone(&egress);
                    streams.spawn(async move {
                        let (read, write) = tokio::io::split(stream);
                        gateway.serve(std::io::Cursor::new(early).chain(read), write).await;
                    });
                }
                // A job that is no task has neither desk nor model: its stream is dropped.
                Ok(Asked::Model { stream, early }) => if let Some(task) = task.clone() {
                    streams.spawn(async move {
                        let (read, write) = tokio::io::split(stream);
                        task.model.serve(tokio::io::join(std::io::Cursor::new(early).chain(read), write)).await;
                    });
                },
                Ok(Asked::Desk { stream, early }) => if let Some(task) = task.clone() {
                    streams.spawn(async move {
                        let (read, write) = tokio::io::split(stream);
                        task.desk.serve(tokio::io::join(std::io::Cursor::new(early).chain(read), write)).await;
                    });
                },
                // A second event stream is nobody's; a guest that does not say what it wants gets nothing.
                Ok(Asked::Events(_)) | Err(MachineError::Deadline | MachineError::Malformed(_) | MachineError::Guest(_)) => {}
                Err(MachineError::Lost) => return,
            },
            Some(_) = streams.join_next(), if !streams.is_empty() => {}
        }
    }
}
