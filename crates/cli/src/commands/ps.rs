//! `sandyard ps`: the jobs, newest first.

use std::collections::BTreeSet;

use clap::Args;
use sandyard_api::{JobId, JobView, Timestamp};

use crate::client::JobQuery;
use crate::clock::now;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::{TableCell, Tone};

const EXAMPLES: &str = "\
Examples:
  sandyard ps --status running
  sandyard ps -q --kind session    ids alone, for scripts";

/// List jobs, newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
    /// Print whole ids and texts, however wide the table becomes
    #[arg(long)]
    no_trunc: bool,
    /// Print only the ids, whole
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
            self.print(context, &jobs)?;
        }
        if more && !self.json {
            context.ui.faint("older jobs are not shown; --all lists them");
        }
        Ok(CommandExit::Success)
    }
}

impl PsCommand {
    fn print(&self, context: &CommandContext, jobs: &[JobView]) -> Result<(), CommandError> {
        let length = if self.no_trunc { JobId::LENGTH } else { distinct_length(jobs) };
        let named = jobs.iter().any(|job| job.name.is_some());
        let now = now();
        let rows: Vec<_> = jobs.iter().map(|job| row(now, job, length, named)).collect();
        let mut head = vec!["JOB", "KIND", "STATE", "AGE", "TOOK"];
        head.extend(named.then_some("NAME"));
        head.push("WHAT");
        let ui = &context.ui;
        if self.no_trunc {
            ui.whole_table(&head, &rows)?
        } else {
            ui.table(&head, &rows)?
        }
        Ok(())
    }
}

/// Letters by which the listed ids differ, at least those of a short id.
fn distinct_length(jobs: &[JobView]) -> usize {
    let usual = jobs.first().map_or(0, |job| job::short_id(job.job_id.as_str()).len());
    let distinct = |length: &usize| {
        let beginnings: BTreeSet<_> = jobs.iter().map(|job| &job.job_id.as_str()[..*length]).collect();
        beginnings.len() == jobs.len()
    };
    (usual..=JobId::LENGTH).find(distinct).unwrap_or(JobId::LENGTH)
}

fn row(now: Timestamp, job: &JobView, length: usize, named: bool) -> Vec<TableCell> {
    let took = job.started_at.map(|start| job::age(job.finished_at.unwrap_or(now), start));
    let mut cells = vec![
        TableCell::plain(&job.job_id.as_str()[..length]),
        TableCell::plain(job.kind.as_str()),
        TableCell(job.state.as_str().to_owned(), job::state_tone(job.state)),
        TableCell::plain(job::age(now, job.created_at)),
        TableCell::plain(took.unwrap_or_else(|| "-".to_owned())),
    ];
    cells.extend(named.then(|| TableCell::plain(job.name.as_deref().unwrap_or("-"))));
    cells.push(what(job));
    cells
}

/// Tells what a job waits for or failed by, and else what it is: the first line of its task or code.
fn what(job: &JobView) -> TableCell {
    let waits = || job.waiting_for.as_ref().map(|waiting| waiting.message.clone());
    let asks = || job.question.as_ref().map(|question| format!("? {question}"));
    let trouble = job.error.as_ref().map(|error| error.message.clone()).or_else(waits).or_else(asks);
    let trouble = trouble.or_else(|| job.reason.clone().filter(|_| !job.state.is_terminal()));
    match (&job.input, trouble) {
        (Some(input), Some(trouble)) => TableCell(format!("{input} · {trouble}"), Tone::Plain),
        (Some(input), None) => TableCell::plain(input),
        (None, trouble) => TableCell(trouble.unwrap_or_default(), Tone::Faint),
    }
}
