//! `sandyard context`: finds passages again, in the files of any folder and in everything that a job has seen.
//!
//! A folder needs no server: the reader, a confined process, cuts its files into passages and keeps their index in the cache. A job is
//! asked at its server.

mod folder;
mod job_memory;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sandyard_memory::messages::{FolderMemory, FolderPassage};

use self::folder::{FolderTask, read_folder};
use self::job_memory::{RecallLimits, ShowContext, recall_job};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::ui::{clean, counted};

const EXAMPLES: &str = "\
Examples:
  sandyard context recall . where is the retry   passages of this folder
  sandyard context recall abcd1234 'port 5432'   of all that a job has seen
  sandyard context show abcd1234 --step 12       what its model read then";

/// Find passages again by words and by meaning, with the place of each
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ContextCommand {
    #[command(subcommand)]
    action: ContextAction,
}

#[derive(Debug, Subcommand)]
enum ContextAction {
    Index(IndexFolder),
    Recall(RecallWords),
    Stats(FolderStatistics),
    Show(ShowContext),
}

const INDEX_EXAMPLES: &str = "\
Examples:
  sandyard context index ~/src/project";

/// Bring the index of a folder up to date
#[derive(Debug, Args)]
#[command(after_help = INDEX_EXAMPLES)]
struct IndexFolder {
    #[command(flatten)]
    place: FolderPlace,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const RECALL_EXAMPLES: &str = "\
Examples:
  sandyard context recall . where is the retry
  sandyard context recall abcd1234 --scope file --path src/main.rs";

/// Print the passages that answer a question best, each with the place where it stands
///
/// A folder is read on this machine. Of a job, live or ended, everything is searched that it, its agent and people said, ran, read and
/// wrote. What exists as a folder is taken for one.
#[derive(Debug, Args)]
#[command(after_help = RECALL_EXAMPLES)]
struct RecallWords {
    /// A folder, or a job: its id, the beginning of it, or its name
    #[arg(value_name = "FOLDER|JOB")]
    place: String,
    /// The question, in words or as an identifier or error message
    #[arg(value_name = "QUERY", required_unless_present = "path")]
    query: Vec<String>,
    /// Folder of a folder's index, which may be deleted at any time [default: one in the cache]
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
    #[command(flatten)]
    limits: RecallLimits,
    /// Number of passages
    #[arg(long, short = 'k', value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    count: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const STATISTICS_EXAMPLES: &str = "\
Examples:
  sandyard context stats ~/src/project";

/// Print the sizes of a folder's index as it is
#[derive(Debug, Args)]
#[command(after_help = STATISTICS_EXAMPLES)]
struct FolderStatistics {
    #[command(flatten)]
    place: FolderPlace,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A folder and its index.
#[derive(Debug, Args)]
struct FolderPlace {
    /// The folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Folder of the index, which may be deleted at any time [default: one in the cache]
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
}

impl ContextCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        match self.action {
            ContextAction::Index(index) => {
                let memory = index.place.read(context, FolderTask::Index).await?;
                index.place.tell(context, &memory, index.json)
            }
            ContextAction::Stats(stats) => {
                let memory = stats.place.read(context, FolderTask::Look).await?;
                stats.place.tell(context, &memory, stats.json)
            }
            ContextAction::Recall(recall) => recall.run(context).await,
            ContextAction::Show(show) => show.run(context).await,
        }
    }
}

impl RecallWords {
    async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let question = self.query.join(" ");
        let folder = PathBuf::from(&self.place);
        if !folder.is_dir() {
            return recall_job(context, &self.place, &question, self.count, &self.limits, self.json).await;
        }
        if self.limits.are_given() {
            return Err(CommandError::usage("a folder has no journal: these limits are for jobs"));
        }
        let task = FolderTask::Recall { question: &question, count: self.count };
        let memory = FolderPlace { folder, index: self.index }.read(context, task).await?;
        if self.json {
            context.ui.json(&memory)?;
        } else {
            warn_of_damage(context, &memory);
            memory.passages.iter().try_for_each(|passage| show(context, passage))?;
        }
        let found = !memory.passages.is_empty();
        if !found {
            context.ui.warn("nothing like it was found");
        }
        Ok(if found { CommandExit::Success } else { CommandExit::Failed })
    }
}

impl FolderPlace {
    async fn read(
        &self,
        context: &CommandContext,
        task: FolderTask<'_>,
    ) -> Result<FolderMemory, CommandError> {
        let progress = context.ui.progress("reading the folder");
        let memory = read_folder(context, &self.folder, self.index.as_deref(), task).await;
        progress.finish();
        memory
    }

    fn tell(
        &self,
        context: &CommandContext,
        memory: &FolderMemory,
        json: bool,
    ) -> Result<CommandExit, CommandError> {
        if json {
            context.ui.json(memory)?;
            return Ok(CommandExit::Success);
        }
        warn_of_damage(context, memory);
        if let Some(sync) = &memory.sync {
            context.ui.line(&format!(
                "{} files, {} of them new or changed, about {} tokens added, {} left out",
                sync.files, sync.added, sync.tokens, sync.skipped
            ))?;
        }
        let size = &memory.statistics;
        context.ui.line(&format!(
            "{} passages, {} repeated, of {} KiB of text; the index takes {} KiB",
            size.chunks,
            size.repeats,
            size.text_bytes / 1024,
            size.file_bytes / 1024
        ))?;
        Ok(CommandExit::Success)
    }
}

fn warn_of_damage(context: &CommandContext, memory: &FolderMemory) {
    if !memory.dropped.is_empty() {
        let parts = counted(memory.dropped.len(), "part");
        context.ui.warn(&format!("{parts} of the index could not be used, so it was made again"));
    }
}

fn show(context: &CommandContext, passage: &FolderPassage) -> Result<(), CommandError> {
    let (first, last) = passage.lines;
    let name = if passage.name.is_empty() { String::new() } else { format!("  {}", passage.name) };
    context.ui.line(&clean(&format!("{}:{first}-{last}{name}", passage.path)))?;
    for line in passage.text.lines() {
        context.ui.line(&format!("    {}", clean(line)))?;
    }
    Ok(context.ui.line("")?)
}
