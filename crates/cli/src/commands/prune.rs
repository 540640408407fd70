//! `sandyard prune`: remove ended jobs, all or the old ones.

use clap::Args;
use futures_util::{StreamExt, stream};
use sandyard_api::JobView;

use crate::client::JobQuery;
use crate::clock::now;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::counted;

/// Removals under way at once. The server writes waiting ones in one commit; more would take the places of other clients.
const REMOVALS_AT_ONCE: usize = 32;

const EXAMPLES: &str = "\
Examples:
  sandyard prune --dry-run
  sandyard prune --older-than 7d --yes";

/// Remove ended jobs with their workspaces, logs and results
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PruneCommand {
    /// Only jobs that ended at least this long ago: 90s, 30m, 12h, 7d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: Option<i64>,
    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl PruneCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let now_ms = now().unix_ms();
        let limit_ms = self.older_than.unwrap_or(0);
        let is_old = |job: &JobView| job.finished_at.is_some_and(|end| now_ms - end.unix_ms() >= limit_ms);
        let jobs = job::every_job(&client, JobQuery::default()).await?;
        let chosen: Vec<_> = jobs.iter().filter(|job| job.state.is_terminal() && is_old(job)).collect();
        if chosen.is_empty() {
            context.ui.note("nothing to remove");
            return Ok(CommandExit::Success);
        }
        if !self.dry_run && !self.yes {
            confirm(context, chosen.len())?;
        }
        let (client, dry_run) = (&client, self.dry_run);
        let removals = stream::iter(chosen).map(|job| async move {
            if !dry_run {
                // Retention may have been faster.
                client
                    .delete(job.job_id.as_str())
                    .await
                    .or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })?;
            }
            Ok::<_, CommandError>(job)
        });
        let mut removals = removals.buffered(REMOVALS_AT_ONCE);
        while let Some(removed) = removals.next().await {
            context.ui.line(removed?.job_id.as_str())?;
        }
        Ok(CommandExit::Success)
    }
}

fn confirm(context: &CommandContext, count: usize) -> Result<(), CommandError> {
    if !context.ui.is_interactive() {
        return Err(CommandError::usage_with_hint(
            "nobody can be asked here",
            "use --yes, or --dry-run to look first",
        ));
    }
    match context.ui.ask(&format!("Remove {} with their results? [y/N]", counted(count, "ended job"))) {
        Some('y') => Ok(()),
        _ => Err(CommandError::usage("nothing was removed")),
    }
}

/// Parses a number with a unit into milliseconds.
pub(super) fn parse_age(text: &str) -> Result<i64, String> {
    let wrong = || "write a number and s, m, h or d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u32 = text.trim_end_matches(unit).parse().map_err(|_| wrong())?;
    Ok(i64::from(number) * seconds * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        assert_eq!(parse_age("90s"), Ok(90_000));
        assert_eq!(parse_age("7d"), Ok(604_800_000));
        for text in ["", "7", "d", "-1d", "1w", "1.5h", "ü"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }
}
