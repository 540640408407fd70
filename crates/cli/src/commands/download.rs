//! `sandyard download`: the workspace of an ended job.

use std::path::PathBuf;

use clap::Args;

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::{self, ResultDestination};

const EXAMPLES: &str = "\
Examples:
  sandyard download abcd1234 -o result     unpacked into a folder
  sandyard download abcd1234 -o - > r.zip";

/// Download the workspace of an ended job
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DownloadCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// A FILE.zip, a folder to unpack into, or - for standard output [default: JOB.zip]
    #[arg(long, short, value_name = "DIR|FILE.zip")]
    output: Option<PathBuf>,
}

impl DownloadCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let target = self.output.unwrap_or_else(|| PathBuf::from(format!("{id}.zip")));
        job::download(&context.ui, &client, &id, &ResultDestination::parse(&target)).await?;
        Ok(CommandExit::Success)
    }
}
