//! `sandyard logs`: print the output of a job, so far or as it arrives.

use clap::Args;
use futures_util::StreamExt;
use sandyard_api::{JobKind, OutputStream};

use crate::client::{ApiClient, ClientError, Follow, FollowUpdate};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::{self, JobOutput, OutputSink, TerminalText};

const EXAMPLES: &str = "\
Examples:
  sandyard logs abcd1234 > out.txt
  sandyard logs -f abcd1234    for a task: its whole story, and what happens";

/// Print the output of a job: its standard output to standard output, its standard error to standard error
///
/// A terminal gets clean text; a file or a pipe gets every byte.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogsCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Continue until the job has ended; of a task, show the story too
    #[arg(long, short)]
    follow: bool,
    /// Print only one of the two streams
    #[arg(long, value_enum)]
    stream: Option<Which>,
    /// Print output as it is, escape sequences included, also on a terminal
    #[arg(long)]
    raw: bool,
}

/// An output stream of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    Stdout,
    Stderr,
}

impl From<Which> for OutputStream {
    fn from(which: Which) -> Self {
        match which {
            Which::Stdout => Self::Stdout,
            Which::Stderr => Self::Stderr,
        }
    }
}

impl LogsCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let only = self.stream.map(OutputStream::from);
        let text = TerminalText::from_flag(self.raw);
        if self.follow {
            let is_task = client.status(&id).await?.kind == JobKind::Task;
            let sink = match only {
                None if is_task => OutputSink::new(context.ui, text, &id),
                only => OutputSink::output_only(context.ui, text, only, &id),
            };
            return follow(client, &id, sink, context).await;
        }
        let mut output = JobOutput::new(text);
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            if only.is_none_or(|only| only == stream) {
                copy(&client, &id, stream, &mut output).await?;
            }
        }
        Ok(CommandExit::Success)
    }
}

async fn follow(
    client: ApiClient,
    id: &str,
    mut sink: OutputSink,
    context: &CommandContext,
) -> Result<CommandExit, CommandError> {
    let mut events = Follow::new(client, id);
    loop {
        match events.next().await? {
            FollowUpdate::Event(event) => sink.show(&event)?,
            FollowUpdate::Lost => context.ui.warn("the connection to the server is lost; reconnecting"),
            FollowUpdate::Back => context.ui.note("the server is back"),
            FollowUpdate::Ended(_) => return Ok(CommandExit::Success),
        }
    }
}

async fn copy(
    client: &ApiClient,
    id: &str,
    stream: OutputStream,
    output: &mut JobOutput,
) -> Result<(), CommandError> {
    let mut body = client.logs(id, stream).await?.bytes_stream();
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(ClientError::Lost)?;
        match stream {
            OutputStream::Stdout => output.stdout(&bytes)?,
            OutputStream::Stderr => output.stderr(&bytes)?,
        }
    }
    Ok(())
}
