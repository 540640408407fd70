//! `sandyard open`: open a page of a sandbox in a browser, or forward a port. One file for each verb; this file creates the link.

mod desktop;
mod lab;
mod port;
mod vnc;

use clap::{Args, Subcommand};

use crate::client::{ApiClient, ServerAddress};
use crate::context::{CommandContext, DEFAULT_URL};
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;

const EXAMPLES: &str = "\
Examples:
  sandyard open desktop abcd1234 --control
  sandyard open lab abcd1234
  sandyard open port abcd1234 5173                    in a browser
  sandyard open port abcd1234 5432 --forward 5432     for other programs";

/// Open the desktop, JupyterLab or a port of a live sandbox
///
/// Prints a link that works once, within 30 seconds, and opens it in a browser if there is one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpenCommand {
    #[command(subcommand)]
    verb: OpenVerb,
}

#[derive(Debug, Subcommand)]
enum OpenVerb {
    Desktop(desktop::OpenDesktopCommand),
    Lab(lab::OpenLabCommand),
    Port(port::OpenPortCommand),
    Vnc(vnc::OpenVncCommand),
}

impl OpenCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        match self.verb {
            OpenVerb::Desktop(command) => command.run(context).await,
            OpenVerb::Lab(command) => command.run(context).await,
            OpenVerb::Port(command) => command.run(context).await,
            OpenVerb::Vnc(command) => command.run(context).await,
        }
    }
}

/// Requests a ticket, prints its link and opens it in a browser.
async fn show(
    context: &CommandContext,
    client: &ApiClient,
    job: &str,
    purpose: &str,
    no_browser: bool,
) -> Result<CommandExit, CommandError> {
    let ticket = client.ticket(job, purpose).await?;
    let link = format!("{}{}", browser_base(client), ticket.url);
    context.ui.line(&link)?;
    if !no_browser {
        browse(context, &link);
    }
    Ok(CommandExit::Success)
}

/// Returns the address of the server for a browser; this command may have reached it by its socket.
fn browser_base(client: &ApiClient) -> &str {
    match client.endpoint() {
        ServerAddress::Http(base) => base,
        ServerAddress::Socket(_) => DEFAULT_URL,
    }
}

/// Opens a link in a browser. Without a local desktop there is none, and the printed link must do.
pub(crate) fn browse(context: &CommandContext, link: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| context.surroundings.get(name).is_some());
    if !desktop {
        return;
    }
    let null = std::process::Stdio::null;
    let started =
        std::process::Command::new("xdg-open").arg(link).stdin(null()).stdout(null()).stderr(null()).spawn();
    if started.is_err() {
        context.ui.note("xdg-open is not there; open the link yourself");
    }
}
