//! `sandyard open`: what a sandbox shows, in a browser or on a local port. One file for each thing; this one owns the link.

mod desktop;
mod lab;
mod port;
mod vnc;

use clap::{Args, Subcommand};

use crate::client::{Client, ServerAddress};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::Exit;

/// Open something of a live sandbox
///
/// Prints a link that works once, within 30 seconds, and opens it in a browser if there is one.
#[derive(Debug, Args)]
pub(crate) struct OpenCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Desktop(desktop::Desktop),
    Lab(lab::Lab),
    Port(port::Port),
    Vnc(vnc::Vnc),
}

impl OpenCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<Exit, CommandError> {
        match self.what {
            What::Desktop(command) => command.run(context).await,
            What::Lab(command) => command.run(context).await,
            What::Port(command) => command.run(context).await,
            What::Vnc(command) => command.run(context).await,
        }
    }
}

/// Asks for a ticket, prints its link and shows it.
async fn show(
    context: &CommandContext,
    client: &Client,
    job: &str,
    purpose: &str,
) -> Result<Exit, CommandError> {
    let ticket = client.ticket(job, purpose).await?;
    let link = format!("{}{}", browser_base(context, client)?, ticket.url);
    context.ui.line(&link)?;
    browse(context, &link);
    Ok(Exit::Success)
}

/// Where a browser finds the server that we may have reached by its socket.
fn browser_base(context: &CommandContext, client: &Client) -> Result<String, CommandError> {
    match client.endpoint() {
        ServerAddress::Http(base) => Ok(base.clone()),
        ServerAddress::Socket(_) => Ok(context.endpoint()?.base().to_owned()),
    }
}

/// Without a desktop there is nothing to open it with, and the link was printed.
fn browse(context: &CommandContext, link: &str) {
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
