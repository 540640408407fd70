//! The socket of the agent: it asks here for tools, and reaches the host's journal and models through here.
//!
//! Every client is the job's user, so hostile: it gets nothing here that it could not do by itself in the machine, and the host
//! judges the carried bytes. Connections are bounded in number and their first message in length.

mod carry;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandyard_pipe::{FrameLimits, Framed};
use sandyard_protocol::limits::{AGENT_REQUEST_BYTES, DATA_BYTES, REQUEST_BYTES};
use sandyard_protocol::{AgentRequest, GuestError, GuestErrorCode, GuestRequest, Reply, Request};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::core::KeeperCore;
use super::dispatch::{KeeperServices, dispatch};
use super::host_link::HostLink;
use super::stream::{HostStream, reply};
use crate::limits::{AGENT_CONNECTIONS, LISTEN_AGAIN, REQUEST_DEADLINE};

/// The socket between the agent and keeper.
#[derive(Debug, Clone)]
pub struct AgentPlace {
    /// Path of the socket, in a directory that only keeper can write.
    pub socket: PathBuf,
    /// The user who may connect.
    pub uid: u32,
}

const AGENT_FRAME_LIMITS: FrameLimits = FrameLimits {
    message_bytes: AGENT_REQUEST_BYTES,
    sent_message_bytes: REQUEST_BYTES,
    data_bytes: DATA_BYTES,
};

/// Serves the agent's connections.
pub(super) struct AgentServer {
    pub(super) core: Arc<KeeperCore>,
    pub(super) services: Arc<KeeperServices>,
    pub(super) link: Arc<HostLink>,
}

/// Accepts connections until keeper stops, at most `AGENT_CONNECTIONS` at once.
pub(super) async fn serve(server: Arc<AgentServer>, place: AgentPlace) {
    let room = Arc::new(Semaphore::new(AGENT_CONNECTIONS));
    loop {
        if let Ok(listener) = listen(&place.socket) {
            while let Ok((connection, _)) = listener.accept().await {
                // The kernel vouches for the user. The socket's mode lets everybody connect, because keeper and the job share no group.
                if !is_allowed(&connection, place.uid) {
                    continue;
                }
                // A connection beyond the bound is dropped, which closes it.
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                let owner = Arc::clone(&server);
                server.core.tasks.spawn(async move {
                    serve_connection(&owner, connection).await;
                    drop(permit);
                });
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

/// Listens in place of the earlier keeper's socket. Nobody else can put a file there.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

fn is_allowed(connection: &UnixStream, uid: u32) -> bool {
    connection.peer_cred().is_ok_and(|peer| peer.uid() == uid)
}

async fn serve_connection(server: &AgentServer, connection: UnixStream) {
    let mut stream: HostStream = Framed::new(Box::new(connection), AGENT_FRAME_LIMITS);
    match tokio::time::timeout(REQUEST_DEADLINE, stream.receive_message()).await {
        Ok(Ok(AgentRequest::Tool(request))) if is_a_tool(&request) => {
            dispatch(server.services.clone(), request, stream).await;
        }
        Ok(Ok(AgentRequest::Tool(_))) => {
            let error = GuestError::new(GuestErrorCode::BadRequest, "this is the host's to ask");
            reply(&mut stream, &Reply::Failed(error)).await;
        }
        Ok(Ok(AgentRequest::Desk)) => carry::carry(&server.link, GuestRequest::Desk, stream).await,
        Ok(Ok(AgentRequest::Model)) => {
            // Waiting for a model is use of the machine.
            let _active = server.services.activity.begin();
            carry::carry(&server.link, GuestRequest::Model, stream).await;
        }
        // Nothing came in time, or not a request.
        _ => {}
    }
}

/// True for a request that the agent may send. The job's life, its ports, export and the control of its desktop are the host's.
fn is_a_tool(request: &Request) -> bool {
    match request {
        Request::StartProcess(_)
        | Request::AttachProcess { .. }
        | Request::SignalProcess { .. }
        | Request::ListProcesses
        | Request::Stat { .. }
        | Request::List { .. }
        | Request::Read { .. }
        | Request::Write { .. }
        | Request::Move { .. }
        | Request::Edit { .. }
        | Request::Remove { .. }
        | Request::MakeDirectory { .. }
        | Request::Search { .. }
        | Request::Gui { .. }
        | Request::StartKernel { .. }
        | Request::ListKernels
        | Request::StopKernel { .. }
        | Request::InterruptKernel { .. }
        | Request::RestartKernel { .. }
        | Request::Execute(_)
        | Request::AttachExecution { .. }
        | Request::Ping => true,
        Request::BeginJob(_)
        | Request::EndJob { .. }
        | Request::PauseJob
        | Request::ResumeJob { .. }
        | Request::Export { .. }
        | Request::ConnectPort { .. }
        | Request::ConnectDesktop { .. }
        | Request::LastScreenshot
        | Request::RecordDesktop
        | Request::WorkspaceChanges => false,
    }
}
