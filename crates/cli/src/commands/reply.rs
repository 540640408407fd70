//! `sandyard reply`: answer the question of a task, or send a message to a running task.

use clap::Args;
use sandyard_api::ReplyRequest;

use super::run_input::budget;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

/// Answer the question of a task, or send a message to a running task
///
/// A running task reads the message at its next step. `sandyard status` shows the question of a waiting task.
#[derive(Debug, Args)]
pub(crate) struct ReplyCommand {
    /// The job: an id, the beginning of one, or a name
    job: String,
    /// What it may spend from now on: steps, tokens or usd, counted from its start
    #[arg(long, short, value_name = "NAME=NUMBER")]
    budget: Vec<String>,
    /// The message
    #[arg(required = true)]
    text: Vec<String>,
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
