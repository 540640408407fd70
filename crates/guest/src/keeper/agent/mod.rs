//! The socket of the loop: what works on a task asks here for tools, and reaches the host's desk and models through here.
//!
//! Whoever connects is the job's user, so hostile: it gets nothing here that it could not do by itself in the machine, and
//! what is carried to the host is judged there. Connections are bounded in number and their first message in length.

mod carry;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandyard_pipe::{FrameLimits, Framed};
use sandyard_protocol::limits::{AGENT_REQUEST_BYTES, DATA_BYTES, REQUEST_BYTES};
use sandyard_protocol::{AgentRequest, GuestError, GuestErrorCode, GuestRequest, Reply, Request};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::Keeper;
use super::link::{self, HostStream, reply};
use crate::limits::{AGENT_CONNECTIONS, LISTEN_AGAIN, REQUEST_DEADLINE};

/// Where the loop meets keeper.
#[derive(Debug, Clone)]
pub struct AgentPlace {
    /// A socket in a directory that only keeper can write.
    pub socket: PathBuf,
    /// Who may connect.
    pub uid: u32,
}

const LIMITS: FrameLimits = FrameLimits {
    message_bytes: AGENT_REQUEST_BYTES,
    sent_message_bytes: REQUEST_BYTES,
    data_bytes: DATA_BYTES,
};

/// Takes connections for ever.
pub(super) async fn serve(keeper: Arc<Keeper>, place: AgentPlace) {
    let room = Arc::new(Semaphore::new(AGENT_CONNECTIONS));
    loop {
        if let Ok(listener) = listen(&place.socket) {
            while let Ok((connection, _)) = listener.accept().await {
                if !is_allowed(&connection, place.uid) {
                    continue;
                }
                // A flood waits for itself: dropping the connection closes it.
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                let owner = Arc::clone(&keeper);
                keeper.tasks.spawn(async move {
                    serve_connection(owner, connection).await;
                    drop(permit);
                });
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

/// The socket of the keeper before is removed; nobody else can put anything there.
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

async fn serve_connection(keeper: Arc<Keeper>, connection: UnixStream) {
    let mut stream: HostStream = Framed::new(Box::new(connection), LIMITS);
    match tokio::time::timeout(REQUEST_DEADLINE, stream.receive_message()).await {
        Ok(Ok(AgentRequest::Tool(request))) if is_a_tool(&request) => {
            link::dispatch(keeper, request, stream).await;
        }
        Ok(Ok(AgentRequest::Tool(_))) => {
            let error = GuestError::new(GuestErrorCode::BadRequest, "this is the host's to ask");
            reply(&mut stream, &Reply::Failed(error)).await;
        }
        Ok(Ok(AgentRequest::Desk)) => carry::carry(&keeper, GuestRequest::Desk, stream).await,
        Ok(Ok(AgentRequest::Model)) => {
            let _use = keeper.in_use.begin();
            carry::carry(&keeper, GuestRequest::Model, stream).await;
        }
        // Silent, or not a request.
        _ => {}
    }
}

/// What the loop may ask for. The job's life, its ports, export and the control of its desktop are the host's.
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
        | Request::WorkspaceChanges => false,
    }
}
