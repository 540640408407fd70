//! `sandyard demo`: a task with a recording in place of a model, so it needs no key.

use std::path::PathBuf;

use clap::Args;

use super::run::RunCommand;
use super::run_input::RunInput;
use crate::context::CommandContext;
use crate::demo;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::OnQuestion;

const EXAMPLES: &str = "\
Examples:
  sandyard demo -o todo";

/// Build a todo app with a recorded model, without a key
///
/// Only the answers of the model are recorded. The sandbox, npm, the build and the test in Chromium are real, and need the full
/// image and access to the npm registry.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoCommand {
    /// Save the result: a FILE.zip, or a folder to unpack into
    #[arg(long, short, value_name = "DIR|FILE.zip")]
    output: Option<PathBuf>,
    /// Print the final status as JSON instead of the output
    #[arg(long)]
    json: bool,
    /// The yard to serve if there is no server [env: SANDYARD_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The driver to use if there is no server [env: SANDYARD_DRIVER]
    #[arg(long, value_name = "NAME")]
    driver: Option<String>,
}

impl DemoCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        context.ui.note(&format!("This is a replay: no model is asked. The task is: {}.", demo::TASK));
        self.as_run().run(context).await
    }

    /// The `run` that this command is.
    pub(crate) fn as_run(self) -> RunCommand {
        RunCommand {
            input: RunInput::task(demo::TASK, &format!("replay:{}", demo::NAME)),
            output: self.output,
            json: self.json,
            raw: false,
            detach: false,
            shell: false,
            rm: false,
            on_question: OnQuestion::Wait,
            data: self.data,
            driver: self.driver,
            record: None,
        }
    }
}
