//! `sandyard attach`: watch a job that runs, or read the story of one that has ended.

use clap::Args;
use sandyard_api::JobView;

use super::run_end;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::{self, OnQuestion, OutputDisplay, TerminalText, Watch, WatchFrom, WatchNotes, Watched};

const EXAMPLES: &str = "\
Examples:
  sandyard attach abcd1234              the whole story, then what happens
  sandyard attach abcd1234 --since now  only what happens from now on";

/// Watch a job: its output, or the story of a task, until it ends; exits as `run` does
///
/// A question of a task is a prompt, and what is typed is the answer. Ctrl-C asks whether to cancel the job or to leave it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AttachCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Where to begin
    #[arg(long, value_enum, default_value_t = WatchFrom::Start, value_name = "WHEN")]
    since: WatchFrom,
    /// When a task asks something and nobody is at a terminal: wait for `sandyard reply`, or fail
    #[arg(long, value_enum, default_value_t = OnQuestion::Wait, value_name = "WHAT")]
    on_question: OnQuestion,
    /// Print output as it is, escape sequences included, also on a terminal
    #[arg(long)]
    raw: bool,
}

impl AttachCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let view = client.status(&id).await?;
        // Nothing happens to an ended job from now on.
        if view.state.is_terminal() && self.since == WatchFrom::Now {
            return end(context, &view);
        }
        let output = OutputDisplay::Live(TerminalText::from_flag(self.raw));
        let notes = WatchNotes::at_server(&id);
        let watch = Watch::new(&context.ui, &client, &id, output, &notes, self.on_question);
        match watch.from(self.since).run().await? {
            Watched::Ended(_) => end(context, &client.status(&id).await?),
            Watched::Left => {
                context.ui.note(notes.left());
                Ok(CommandExit::Interrupted)
            }
            Watched::Asked => Ok(CommandExit::Question),
        }
    }
}

fn end(context: &CommandContext, view: &JobView) -> Result<CommandExit, CommandError> {
    run_end::tell(&context.ui, view);
    if let Some(summary) = &view.summary {
        context.ui.line(summary)?;
    }
    Ok(CommandExit::of_job(view))
}
