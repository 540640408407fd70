//! `sandyard screenshot`: save the screen of a desktop to a file.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard screenshot abcd1234 now.png";

/// Save a screenshot of a job's desktop
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScreenshotCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// File to write, or - for standard output [default: JOB.png]
    file: Option<PathBuf>,
    /// Only the window with this id
    #[arg(long, value_name = "ID")]
    window: Option<u32>,
}

impl ScreenshotCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let png = client.screenshot(&id, self.window).await?;
        let target = self.file.unwrap_or_else(|| PathBuf::from(format!("{id}.png")));
        if target.as_os_str() == "-" {
            if std::io::stdout().is_terminal() {
                return Err(CommandError::usage_with_hint(
                    "a picture can't be shown on a terminal".to_owned(),
                    "redirect standard output, or name a file".to_owned(),
                ));
            }
            std::io::stdout().write_all(&png)?;
            return Ok(CommandExit::Success);
        }
        std::fs::write(&target, png).map_err(CommandError::file("write", &target))?;
        context.ui.line(&target.display().to_string())?;
        Ok(CommandExit::Success)
    }
}
