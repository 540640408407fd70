//! `sandyard rm`: remove jobs with all their data.

use clap::Args;

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard rm abcd1234
  sandyard rm --force abcd1234     also one that still runs";

/// Remove jobs: sandbox, workspace, logs and result
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RmCommand {
    /// The jobs: ids, beginnings of them, or names
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Also remove jobs that have not ended; they are cancelled first
    #[arg(long, short)]
    force: bool,
}

impl RmCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        for id in job::resolve_all(&client, &self.jobs).await? {
            let view = client.status(&id).await?;
            if !self.force && !view.state.is_terminal() {
                return Err(CommandError::usage_with_hint(
                    format!("job {id} is {}", view.state.as_str()),
                    "cancel it first, or use --force",
                ));
            }
            client.delete(&id).await?;
            context.ui.line(&id)?;
        }
        Ok(CommandExit::Success)
    }
}
