//! `sandyard open lab`: open JupyterLab in a browser.

use clap::Args;

use super::show;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard open lab abcd1234
  sandyard open lab abcd1234 --no-browser    only the link";

/// Open JupyterLab of a sandbox
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpenLabCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Print the link only
    #[arg(long)]
    no_browser: bool,
}

impl OpenLabCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        show(context, &client, &id, "lab", self.no_browser).await
    }
}
