//! `sandyard open lab`.

use clap::Args;

use super::show;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::Exit;
use crate::job;

/// JupyterLab of a sandbox
#[derive(Debug, Args)]
pub(crate) struct Lab {
    /// The job: its id, the beginning of it, or its name
    job: String,
}

impl Lab {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<Exit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        show(context, &client, &id, "lab").await
    }
}
