//! `sandyard version`: the version of this program, and of the server if one answers.

use clap::Args;
use serde_json::json;

use crate::config::Flags;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;

const EXAMPLES: &str = "\
Examples:
  sandyard version
  sandyard version --json";

/// Print the version of this program, and of the server if one answers
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VersionCommand {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl VersionCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let own = env!("CARGO_PKG_VERSION");
        let settings = context.settings(&Flags::default())?;
        let server = match context.running_server(&settings).await? {
            Some(client) => client.version().await.ok().map(|view| (view, client.endpoint().to_string())),
            None => None,
        };
        if self.json {
            let server = server.map(|(view, address)| json!({ "version": view.version, "address": address }));
            context.ui.json(&json!({ "version": own, "server": server }))?;
            return Ok(CommandExit::Success);
        }
        context.ui.line(&format!("sandyard {own}"))?;
        match server {
            Some((view, address)) => context.ui.line(&format!("server {} at {address}", view.version))?,
            None => context.ui.line("server: none answers")?,
        }
        Ok(CommandExit::Success)
    }
}
