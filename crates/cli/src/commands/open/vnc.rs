//! `sandyard open vnc`: forward a local port for plain VNC clients. Nothing else listens; the bytes go through the server.

use clap::Args;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::client::ApiClient;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::machine;

/// Largest number of VNC clients.
const CLIENTS: usize = 16;
const BUFFER: usize = 64 * 1024;

const EXAMPLES: &str = "\
Examples:
  sandyard open vnc abcd1234 --port 5901 --control
  vncviewer 127.0.0.1:5901                            in another terminal";

/// Forward a local port to the desktop of a job, for VNC clients, until Ctrl-C
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpenVncCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Port on 127.0.0.1; 0 picks a free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Take control instead of only watching; one client at a time
    #[arg(long)]
    control: bool,
}

impl OpenVncCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await?;
        let address = listener.local_addr()?;
        context.ui.line(&format!("vnc://{address}"))?;
        let mut clients = JoinSet::new();
        // Made once: a signal between two turns of the loop is remembered.
        let mut stop = machine::stop_signals();
        loop {
            // At the limit nothing is accepted: further clients wait in the kernel's queue until one leaves.
            // Dropping `accept` or `join_next` loses nothing.
            tokio::select! {
                accepted = listener.accept(), if clients.len() < CLIENTS => {
                    if let Ok((stream, _)) = accepted {
                        clients.spawn(carry(client.clone(), id.clone(), self.control, stream));
                    }
                }
                Some(ended) = clients.join_next(), if !clients.is_empty() => {
                    if let Ok(Err(error)) = ended {
                        context.ui.warn(&error.to_string());
                    }
                }
                () = stop.next() => return Ok(CommandExit::Success),
            }
        }
    }
}

/// Carries one VNC client until either side closes.
async fn carry(client: ApiClient, job: String, control: bool, stream: TcpStream) -> Result<(), CommandError> {
    let (mut sender, mut receiver) = client.desktop(&job, control).await?;
    let _ = stream.set_nodelay(true);
    let (mut reader, mut writer) = stream.into_split();
    let upward = async {
        let mut buffer = vec![0; BUFFER];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            sender.send(buffer[..count].to_vec()).await?;
        }
        Ok(())
    };
    let downward = async {
        while let Some(bytes) = receiver.next().await? {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    // The session ends when either direction does. Dropping the other direction loses only bytes that nobody
    // would read: its peer is gone.
    tokio::select! {
        done = upward => done,
        done = downward => done,
    }
}
