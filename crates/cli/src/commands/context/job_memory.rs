//! The memory of a job: passages, and what its model read.

use clap::Args;
use sandyard_api::{ContextPartView, PassageView};

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::clean;

/// Lines of a part's text that are shown.
const SHOWN_LINES: usize = 3;

/// What may answer.
#[derive(Debug, Args)]
pub(super) struct RecallLimits {
    /// Only texts of these origins, separated by commas: person, model, call, result, file, cell, note
    #[arg(long, value_name = "ORIGINS")]
    scope: Option<String>,
    /// Only texts whose path begins so; without a query, the versions of that file
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only what is before this entry of the journal
    #[arg(long, value_name = "ENTRY")]
    before: Option<u64>,
    /// Only what is after this entry of the journal
    #[arg(long, value_name = "ENTRY")]
    after: Option<u64>,
}

impl RecallLimits {
    /// True if any limit is set.
    pub(super) fn are_given(&self) -> bool {
        let Self { scope, path, before, after } = self;
        scope.is_some() || path.is_some() || before.is_some() || after.is_some()
    }
}

const SHOW_EXAMPLES: &str = "\
Examples:
  sandyard context show abcd1234 --step 12";

/// Print what the model of a task read for one of its answers, and why
///
/// The parts are named by the entries of the journal that they stand for. A part is whole, or a line or summary stands for it, or it was
/// recalled for that step.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(super) struct ShowContext {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// An entry of the journal: the answer, or anything before it
    #[arg(long, value_name = "ENTRY")]
    step: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints passages of a job.
pub(super) async fn recall_job(
    context: &CommandContext,
    name: &str,
    question: &str,
    count: u16,
    limits: &RecallLimits,
    json: bool,
) -> Result<CommandExit, CommandError> {
    let client = context.client().await?;
    let id = job::resolve(&client, name).await?;
    let RecallLimits { scope, path, before, after } = limits;
    let mut query = vec![("k", count.to_string())];
    query.extend((!question.is_empty()).then(|| ("q", question.to_owned())));
    query.extend(scope.clone().map(|scope| ("scope", scope)));
    query.extend(path.clone().map(|path| ("path", path)));
    query.extend(before.map(|before| ("before", before.to_string())));
    query.extend(after.map(|after| ("after", after.to_string())));
    let found = client.recall(&id, &query).await?;
    if json {
        context.ui.json(&found)?;
    } else {
        found.passages.iter().try_for_each(|passage| show(context, passage))?;
        if found.unverified > 0 {
            context.ui.warn(&format!("{} passages are left out: their text is lost", found.unverified));
        }
    }
    if found.passages.is_empty() {
        context.ui.warn("nothing like it was found");
        return Ok(CommandExit::Failed);
    }
    Ok(CommandExit::Success)
}

fn show(context: &CommandContext, passage: &PassageView) -> Result<(), CommandError> {
    let source = &passage.source;
    let entry = source.entry.map_or_else(String::new, |entry| format!("entry {entry}  "));
    let [first, last] = source.lines;
    let seen = if passage.seen > 1 { format!("  seen {} times", passage.seen) } else { String::new() };
    let place =
        format!("{entry}{} {}:{first}-{last}  {}{seen}", source.origin, source.path, source.at.to_text());
    context.ui.line(&clean(&place))?;
    for line in passage.text.lines() {
        context.ui.line(&format!("    {}", clean(line)))?;
    }
    Ok(context.ui.line("")?)
}

impl ShowContext {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let shown = client.context(&id, self.step).await?;
        if self.json {
            context.ui.json(&shown)?;
            return Ok(CommandExit::Success);
        }
        let tokens = format!("{} tokens, {} of them cached", shown.tokens_in, shown.tokens_cached);
        context.ui.note(&clean(&format!("answer {} of {}: {tokens}", shown.entry, shown.model)));
        if !shown.packed {
            context.ui.line(&format!("1-{}  everything as it is", shown.entry.saturating_sub(1)))?;
        }
        shown.parts.iter().try_for_each(|part| show_part(context, part))?;
        Ok(CommandExit::Success)
    }
}

fn show_part(context: &CommandContext, part: &ContextPartView) -> Result<(), CommandError> {
    let reason = serde_json::to_value(part.reason).ok();
    let reason = reason.as_ref().and_then(|reason| reason.as_str()).unwrap_or_default();
    let entries = if part.first == part.last {
        part.first.to_string()
    } else {
        format!("{}-{}", part.first, part.last)
    };
    context.ui.line(&format!("{entries}  {reason}, about {} tokens", part.tokens))?;
    for line in part.text.as_deref().unwrap_or_default().lines().take(SHOWN_LINES) {
        context.ui.line(&format!("    {}", clean(line)))?;
    }
    Ok(())
}
