//! `sandyard logs`: a job's output, so far or as it comes.

use std::io::{self, Write};

use clap::Args;
use futures_util::StreamExt;
use sandyard_api::OutputStream;

use crate::client::{Client, ClientError, Follow, Followed};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::Exit;
use crate::job::{self, OutputSink};

/// Print a job's output: its standard output to ours, its standard error to ours
#[derive(Debug, Args)]
pub(crate) struct LogsCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Go on until the job has ended
    #[arg(long, short)]
    follow: bool,
    /// Only one of the two
    #[arg(long, value_enum)]
    stream: Option<Which>,
}

/// One of a job's two outputs.
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
    pub(crate) async fn run(self, context: &CommandContext) -> Result<Exit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let only = self.stream.map(OutputStream::from);
        if self.follow {
            return follow(context, client, &id, only).await;
        }
        if only != Some(OutputStream::Stderr) {
            copy(&client, &id, OutputStream::Stdout, io::stdout()).await?;
        }
        if only != Some(OutputStream::Stdout) {
            copy(&client, &id, OutputStream::Stderr, io::stderr()).await?;
        }
        Ok(Exit::Success)
    }
}

async fn follow(
    context: &CommandContext,
    client: Client,
    id: &str,
    only: Option<OutputStream>,
) -> Result<Exit, CommandError> {
    let mut sink = OutputSink::output_only(context.ui, only);
    let mut events = Follow::new(client, id);
    loop {
        match events.next().await? {
            Followed::Event(event) => sink.show(&event)?,
            Followed::Lost => context.ui.warn("the server is away; waiting for it"),
            Followed::Back => context.ui.note("the server is back"),
            Followed::Ended(_) => return Ok(Exit::Success),
        }
    }
}

async fn copy(
    client: &Client,
    id: &str,
    stream: OutputStream,
    mut out: impl Write,
) -> Result<(), CommandError> {
    let mut body = client.logs(id, stream).await?.bytes_stream();
    while let Some(bytes) = body.next().await {
        out.write_all(&bytes.map_err(ClientError::Lost)?)?;
    }
    Ok(out.flush()?)
}
