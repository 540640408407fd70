//! `sandyard events`: the events of a job, one line of JSON each.

use clap::Args;
use sandyard_api::SseFrame;
use serde_json::Value;

use crate::client::ClientError;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard events abcd1234        everything so far, and what happens
  sandyard events abcd1234 --tail 10 --no-follow
  sandyard events abcd1234 --type egress | jq -r .target";

/// Print the events of a job as lines of JSON, until it ends
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EventsCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Begin after the event with this number
    #[arg(long, value_name = "ID", default_value_t = 0)]
    after: u64,
    /// Begin with this many of the events that there are
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
    /// Only events of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// End after the events that there are
    #[arg(long)]
    no_follow: bool,
}

impl EventsCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let newest = if self.no_follow { Some(client.newest_event(&id).await?) } else { None };
        let mut after = self.after;
        let mut tail = self.tail;
        loop {
            if newest.is_some_and(|newest| after >= newest) {
                return Ok(CommandExit::Success);
            }
            let mut reader = client.events(&id, after, tail.take()).await?;
            let mut over = false;
            loop {
                match reader.next().await {
                    Ok(Some(frame)) => {
                        after = frame.id.unwrap_or(after).max(after);
                        over |= self.print(context, &frame)?;
                        if newest.is_some_and(|newest| after >= newest) {
                            return Ok(CommandExit::Success);
                        }
                    }
                    Ok(None) | Err(ClientError::Lost(_)) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            // A stream ends with the job, or with its server: the next one continues after the last event.
            if over || client.status(&id).await?.state.is_terminal() {
                return Ok(CommandExit::Success);
            }
        }
    }

    /// Prints an event. True if it is the last of its job.
    fn print(&self, context: &CommandContext, frame: &SseFrame) -> Result<bool, CommandError> {
        let Ok(Value::Object(mut members)) = serde_json::from_str(&frame.data) else { return Ok(false) };
        let kind = members.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let state = members.get("state").and_then(Value::as_str).and_then(sandyard_api::JobState::parse);
        if self.types.is_empty() || self.types.contains(&kind) {
            members.insert("id".to_owned(), frame.id.into());
            context.ui.json_lines(&Value::Object(members).to_string())?;
        }
        Ok(kind == "state" && state.is_some_and(sandyard_api::JobState::is_terminal))
    }
}
