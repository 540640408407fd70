//! `sandyard extend`: more time for a job.

use clap::Args;

use super::prune::parse_age;
use crate::clock::now;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard extend abcd1234 2h    the session lasts two hours from now on
  sandyard extend abcd1234 900s";

/// Let a job or session run longer: for this time from now on
///
/// A job that may run longer already keeps its time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExtendCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// How long from now on: 90s, 30m, 12h, 7d
    #[arg(value_name = "TIME", value_parser = parse_age)]
    time: i64,
}

impl ExtendCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let seconds = u64::try_from(self.time / 1000).unwrap_or(0);
        let view = client.extend(&id, seconds).await?;
        let end_ms = view.started_at.map_or(now().unix_ms(), |start| start.unix_ms());
        let end_ms = end_ms.saturating_add_unsigned(view.limits.timeout_s.saturating_mul(1000));
        let left = job::duration(end_ms.saturating_sub(now().unix_ms()).max(0));
        context.ui.note(&format!("{} may run for {left} from now on", job::short_id(&id)));
        Ok(CommandExit::Success)
    }
}
