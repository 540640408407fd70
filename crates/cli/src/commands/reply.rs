//! `sandyard reply`: answer a task that waits, or tell a running one something.

use clap::Args;
use sandyard_api::ReplyRequest;

use super::run_input::budget;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::Exit;
use crate::job;

/// Answer a task that waits, or tell a running one something
///
/// A running task hears it at its next step. `sandyard status` shows what a waiting one asks.
#[derive(Debug, Args)]
pub(crate) struct ReplyCommand {
    /// The job: an id, the beginning of one, or a name
    job: String,
    /// What it may spend from now on: steps, tokens or usd, counted from its start
    #[arg(long, short, value_name = "NAME=NUMBER")]
    budget: Vec<String>,
    /// The words
    #[arg(required = true)]
    text: Vec<String>,
}

impl ReplyCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<Exit, CommandError> {
        let body = ReplyRequest { text: self.text.join(" "), budget: budget(&self.budget)? };
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        client.reply(&id, &body).await?;
        Ok(Exit::Success)
    }
}
