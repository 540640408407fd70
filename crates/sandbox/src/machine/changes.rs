//! Changes of the workspace.

use sandyard_protocol::{Reply, Request, WorkspaceChanges};

use super::calls::{Machine, MachineError, unexpected};

impl Machine {
    /// The difference to the look before, bounded by the guest in time and length.
    pub async fn workspace_changes(&self) -> Result<WorkspaceChanges, MachineError> {
        match self.call(&Request::WorkspaceChanges).await?.1 {
            Reply::Changes(changes) => Ok(*changes),
            other => Err(unexpected(&other)),
        }
    }
}
