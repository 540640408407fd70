//! `sandyard open port`: open a port of a sandbox in a browser, or forward it to a local port for other programs.

use std::net::Ipv4Addr;

use clap::Args;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::show;
use crate::client::{ApiClient, ClientError};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::machine;
use crate::serve::ServeError;

/// Largest number of forwarded connections; more wait in the kernel's queue.
const CONNECTIONS: usize = 128;

const EXAMPLES: &str = "\
Examples:
  sandyard open port abcd1234 5173                    in a browser
  sandyard open port abcd1234 5432 --forward 5432     for other programs";

/// Open a port of a sandbox on an origin of its own
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpenPortCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// The port in the sandbox
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Forward this port of 127.0.0.1 to it until Ctrl-C, for programs other than browsers; 0 picks a free port
    #[arg(long, value_name = "LOCALPORT")]
    forward: Option<u16>,
    /// Print the link only
    #[arg(long)]
    no_browser: bool,
}

impl OpenPortCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        match self.forward {
            Some(local) => forward(context, &client, &id, self.port, local).await,
            None => {
                let purpose = format!("port:{}", self.port);
                show(context, &client, &id, &purpose, self.no_browser).await
            }
        }
    }
}

async fn forward(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    port: u16,
    local: u16,
) -> Result<CommandExit, CommandError> {
    let mut stop = machine::stop_signals();
    let failed = |source| ServeError::Listen { address: format!("127.0.0.1:{local}"), source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, local)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    context.ui.line(&address.to_string())?;
    let mut connections = JoinSet::new();
    loop {
        // At the limit nothing is accepted: further clients wait in the kernel's queue until a connection
        // ends. Dropping `accept` or `join_next` loses nothing, and `stop` remembers a signal that arrives
        // meanwhile.
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => {
                let (stream, _) = accepted.map_err(failed)?;
                connections.spawn(carry(client.clone(), id.to_owned(), port, stream));
            }
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                if let Ok(Err(error)) = ended {
                    context.ui.warn(&error.to_string());
                }
            }
            () = stop.next() => return Ok(CommandExit::Success),
        }
    }
}

async fn carry(client: ApiClient, id: String, port: u16, mut local: TcpStream) -> Result<(), ClientError> {
    let mut remote = client.connect_port(&id, port).await?;
    // Either side's failure is the other's end.
    drop(tokio::io::copy_bidirectional(&mut local, &mut remote).await);
    Ok(())
}
