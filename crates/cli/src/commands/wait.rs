//! `sandyard wait`: wait for the end of jobs.

use clap::Args;

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::clean;

/// Longest wait of one request on the server.
const WAIT_S: u64 = 60;

const EXAMPLES: &str = "\
Examples:
  sandyard wait abcd1234 && sandyard download abcd1234
  sandyard wait first second";

/// Wait until jobs have ended; exits as `run` does, for several jobs with the first code that is not 0
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WaitCommand {
    /// The jobs: ids, beginnings of them, or names
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
}

impl WaitCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let mut first = CommandExit::Success;
        for id in job::resolve_all(&client, &self.jobs).await? {
            let mut view = client.status(&id).await?;
            while !view.state.is_terminal() {
                view = client.status_at_end(&id, WAIT_S).await?;
            }
            if !self.quiet {
                let why = view.error.as_ref().map(|error| format!(": {}", clean(&error.message)));
                context.ui.line(&format!("{id} {}{}", view.state.as_str(), why.unwrap_or_default()))?;
            }
            if first.code() == 0 {
                first = CommandExit::of_job(&view);
            }
        }
        Ok(first)
    }
}
