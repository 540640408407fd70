//! `sandyard kernels`: the kernels of a live sandbox.

use clap::Args;
use sandyard_api::KernelView;

use crate::client::KernelChange;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::TableCell;

const EXAMPLES: &str = "\
Examples:
  sandyard kernels abcd1234
  sandyard kernels abcd1234 --interrupt python
  sandyard kernels abcd1234 --rm python-2";

/// List the kernels of a live sandbox, or interrupt, restart or remove one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KernelsCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Interrupt the code that runs in a kernel
    #[arg(long, value_name = "KERNEL", conflicts_with_all = ["restart", "rm"])]
    interrupt: Option<String>,
    /// Restart a kernel; its variables are gone
    #[arg(long, value_name = "KERNEL", conflicts_with = "rm")]
    restart: Option<String>,
    /// Remove a kernel
    #[arg(long, value_name = "KERNEL")]
    rm: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl KernelsCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let change = match (self.interrupt, self.restart, self.rm) {
            (Some(kernel), _, _) => Some((kernel, KernelChange::Interrupt)),
            (_, Some(kernel), _) => Some((kernel, KernelChange::Restart)),
            (_, _, Some(kernel)) => Some((kernel, KernelChange::Remove)),
            (None, None, None) => None,
        };
        if let Some((kernel, change)) = change {
            client.change_kernel(&id, &kernel, change).await?;
            return Ok(CommandExit::Success);
        }
        let listed = client.kernels(&id).await?;
        if self.json {
            context.ui.json(&listed)?;
        } else if listed.kernels.is_empty() {
            context.ui.note("no kernel runs; `sandyard code` starts one");
        } else {
            let rows: Vec<_> = listed.kernels.iter().map(row).collect();
            context.ui.table(&["KERNEL", "LANGUAGE", "STATE", "QUEUED", "RUN"], &rows)?;
        }
        Ok(CommandExit::Success)
    }
}

fn row(kernel: &KernelView) -> Vec<TableCell> {
    let text = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let state = serde_json::to_value(kernel.state).map(text).unwrap_or_default();
    vec![
        TableCell::plain(&kernel.kernel),
        TableCell::plain(kernel.language.as_str()),
        TableCell::plain(state),
        TableCell::plain(kernel.queued.to_string()),
        TableCell::plain(kernel.execution_count.to_string()),
    ]
}
