//! `sandyard mcp`: offer the tools of the server to a program that speaks the Model Context Protocol over standard streams.

use std::sync::Arc;

use clap::Args;
use sandyard_server::http::mcp::Tools;

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;

const EXAMPLES: &str = "\
Examples:
  claude mcp add sandyard -- sandyard mcp";

/// Offer the server's tools to an MCP client over standard input and output
///
/// For editors and agents that start their MCP servers as programs. Clients that speak HTTP use http://127.0.0.1:8000/mcp instead.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpCommand {}

impl McpCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let address = client.endpoint().base().to_owned();
        let tools = Tools::new(Arc::new(client), env!("CARGO_PKG_VERSION"), &address);
        tools.serve_streams(tokio::io::stdin(), tokio::io::stdout()).await?;
        Ok(CommandExit::Success)
    }
}
