//! Kernels that speak the Jupyter protocol: how each is started and interrupted, and the conversation with it.
//!
//! `launch` starts the process with its `connection` file and opens the `channels` (`zmtp`, `message`, `content`);
//! `session` follows one execution over them.

mod channels;
mod connection;
mod content;
mod launch;
mod message;
mod program;
mod session;
mod zmtp;

use std::sync::Arc;

use async_trait::async_trait;
use sandyard_protocol::GuestError;

pub(super) use connection::{ConnectionFile, random_text};
pub(super) use content::{MimeBundle, cut};
pub(super) use program::{DENO, JupyterKernel, PYTHON};
pub(super) use zmtp::MemoryBudget;

use super::backend::{KernelBackend, KernelSessionError, LiveKernel};
use super::context::KernelContext;
use super::kernel::{KernelDocument, KernelHandle};
use crate::keeper::processes::ManagedProcess;

#[async_trait]
impl KernelBackend for &'static JupyterKernel {
    fn connection(&self) -> std::io::Result<Option<ConnectionFile>> {
        ConnectionFile::draw(self.kernel_name).map(Some)
    }

    async fn launch(
        &self,
        context: &Arc<KernelContext>,
        kernel: &KernelHandle,
    ) -> Result<LiveKernel, GuestError> {
        launch::launch(self, context, kernel).await
    }

    async fn reconnect(
        &self,
        context: &KernelContext,
        document: &KernelDocument,
        process: Arc<ManagedProcess>,
    ) -> Result<LiveKernel, KernelSessionError> {
        Ok(launch::reconnect(self, document, process, &context.budget).await?)
    }
}
