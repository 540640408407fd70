//! `sandyard open desktop`: open the live view in a browser.

use clap::Args;

use super::{browse, browser_base};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard open desktop abcd1234              watch
  sandyard open desktop abcd1234 --control    mouse and keyboard too";

/// Watch the desktop of a job in a browser
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpenDesktopCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Take control instead of only watching
    #[arg(long)]
    control: bool,
    /// Print the address only
    #[arg(long)]
    no_browser: bool,
}

impl OpenDesktopCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        // A server with keys lets the page in by a ticket, good once and for 30 seconds.
        let path = match context.token {
            Some(_) => client.ticket(&id, "desktop").await?.url,
            None => format!("/jobs/{id}/desktop/"),
        };
        let separator = if path.contains('?') { '&' } else { '?' };
        let control = if self.control { format!("{separator}control=1") } else { String::new() };
        let link = format!("{}{path}{control}", browser_base(&client));
        context.ui.line(&link)?;
        if !self.no_browser {
            browse(context, &link);
        }
        Ok(CommandExit::Success)
    }
}
