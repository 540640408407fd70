//! Changes of the workspace since the last look.

use sandyard_protocol::{Reply, Request, WorkspaceChanges};

use super::calls::{Machine, MachineError, unexpected};

impl Machine {
    /// Returns the difference to the previous call. The guest bounds its time and length.
    pub async fn workspace_changes(&self) -> Result<WorkspaceChanges, MachineError> {
        match self.call(&Request::WorkspaceChanges).await?.1 {
            Reply::Changes(changes) => Ok(*changes),
            other => Err(unexpected(&other)),
        }
    }
}
