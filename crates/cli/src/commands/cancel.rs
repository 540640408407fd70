//! `sandyard cancel`: end jobs and kept sandboxes; the workspaces stay.

use clap::Args;

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard cancel abcd1234 first";

/// End jobs, and sandboxes that are kept for ended jobs; their workspaces are kept
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CancelCommand {
    /// The jobs: ids, beginnings of them, or names
    #[arg(required = true)]
    jobs: Vec<String>,
}

impl CancelCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        for id in job::resolve_all(&client, &self.jobs).await? {
            client.cancel(&id).await?;
            context.ui.line(&id)?;
        }
        Ok(CommandExit::Success)
    }
}
