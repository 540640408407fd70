//! `sandyard inspect`: everything about a job, as JSON.

use clap::Args;

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard inspect abcd1234
  sandyard inspect abcd1234 | jq .limits";

/// Print everything about a job as JSON: input, limits in effect, egress, names of variables, model, expiry
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
}

impl InspectCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        context.ui.json(&client.status(&id).await?)?;
        Ok(CommandExit::Success)
    }
}
