//! `sandyard ps`: the jobs, newest first.

use clap::Args;
use sandyard_api::{JobView, Timestamp};

use crate::client::JobQuery;
use crate::clock::now;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::{TableCell, Tone};

/// List jobs, newest first
#[derive(Debug, Args)]
pub(crate) struct PsCommand {
    /// List all jobs, not only the newest
    #[arg(long, short)]
    all: bool,
    /// Number of jobs to list
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Only jobs in this state: pending, running, complete or error
    #[arg(long)]
    status: Option<String>,
    /// Only jobs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Print only the ids
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PsCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let query = JobQuery {
            status: self.status.clone(),
            kind: self.kind.clone(),
            limit: self.limit,
            cursor: None,
        };
        let (jobs, more) = if self.all {
            (job::every_job(&client, query).await?, false)
        } else {
            let page = client.list(&query).await?;
            (page.jobs, page.cursor.is_some())
        };
        if self.json {
            context.ui.json(&serde_json::json!({ "jobs": jobs }))?;
        } else if self.quiet {
            jobs.iter().try_for_each(|job| context.ui.line(job.job_id.as_str()))?;
        } else {
            let now = now();
            let rows: Vec<_> = jobs.iter().map(|job| row(now, job)).collect();
            context.ui.table(&["JOB", "NAME", "KIND", "STATE", "AGE", "TOOK", "WHY"], &rows)?;
        }
        if more && !self.json {
            context.ui.faint("older jobs are not shown; --all lists them");
        }
        Ok(CommandExit::Success)
    }
}

fn row(now: Timestamp, job: &JobView) -> Vec<TableCell> {
    let took = job.started_at.map(|start| job::age(job.finished_at.unwrap_or(now), start));
    let waits = || job.waiting_for.as_ref().map(|waiting| waiting.message.clone());
    let why =
        job.error.as_ref().map(|error| error.message.clone()).or_else(waits).or_else(|| job.reason.clone());
    vec![
        TableCell::plain(job.job_id.as_str()),
        TableCell::plain(shorten(job.name.as_deref().unwrap_or("-"), 24)),
        TableCell::plain(job.kind.as_str()),
        TableCell(job.state.as_str().to_owned(), job::state_tone(job.state)),
        TableCell::plain(job::age(now, job.created_at)),
        TableCell::plain(took.unwrap_or_else(|| "-".to_owned())),
        TableCell(shorten(&why.unwrap_or_default(), 60), Tone::Faint),
    ]
}

/// Shortens text to this many characters.
fn shorten(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_on_characters() {
        assert_eq!(shorten("short", 8), "short");
        assert_eq!(shorten("äöüäöüäöü", 4), "äöü…");
    }
}
