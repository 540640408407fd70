//! `sandyard reply`: answer the question of a task, or send a message to a running task.

use clap::Args;
use sandyard_api::{ReplyRequest, ScheduleBody};

use super::run_input::{alternatives, budget};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard reply abcd1234 'Use blue.'
  sandyard reply abcd1234 -b usd=2 'Go on.'";

/// Answer the question of a task, or send a message to a running task
///
/// A running task reads the message at its next step. `sandyard status` shows the question of a waiting task.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplyCommand {
    /// The job: an id, the beginning of one, or a name
    job: String,
    #[arg(long, short, value_name = "NAME=NUMBER", help = budget_help())]
    budget: Vec<String>,
    /// The message
    #[arg(required = true)]
    text: Vec<String>,
}

fn budget_help() -> String {
    let names = alternatives(&ScheduleBody::budget_names());
    format!("Change what the task may spend, counted from its start: {names}")
}

impl ReplyCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let body = ReplyRequest { text: self.text.join(" "), budget: budget(&self.budget)? };
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        client.reply(&id, &body).await?;
        Ok(CommandExit::Success)
    }
}
