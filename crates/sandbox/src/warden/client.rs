//! The warden as the server sees it: its drivers, the states of its images, and its end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::watch;

use super::connection::WardenConnection;
use super::messages::{CallReply, DriverFacts, WardenCall, WardenMessage};
use super::places::{WorkspaceName, WorkspacePlaces};
use super::remote_driver::RemoteDriver;
use super::service::ImageStates;
use super::socket::WardenSocket;
use crate::driver::Driver;
use crate::host::packets;

/// The warden could not be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenWardenError {
    /// The drivers could not be opened. The text is the chain of causes.
    #[error("{0}")]
    Refused(String),
    /// The socket failed, or the warden ended.
    #[error("reach the privileged process")]
    Socket(#[source] io::Error),
}

impl From<io::Error> for OpenWardenError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// The warden of this server.
pub struct WardenClient {
    connection: Arc<WardenConnection>,
    drivers: Vec<Arc<dyn Driver>>,
    images: watch::Receiver<ImageStates>,
}

impl WardenClient {
    /// Waits until the warden has opened its drivers. Must be called within a tokio runtime.
    pub async fn open(socket: OwnedFd, places: WorkspacePlaces) -> Result<Self, OpenWardenError> {
        let socket = WardenSocket::new(socket)?;
        let first = socket.receive().await?;
        if first.is_end() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let (facts, states) = match packets::decode(&first.bytes)? {
            WardenMessage::Opened { drivers, images } => (drivers, images),
            WardenMessage::Refused { reason } => return Err(OpenWardenError::Refused(reason)),
            _ => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        };
        let (states, images) = watch::channel(states.into_iter().collect());
        let connection = WardenConnection::open(socket, places, states);
        let drivers = facts.into_iter().enumerate();
        let drivers = drivers.map(|(index, facts)| remote(&connection, index, facts));
        Ok(Self { drivers: drivers.collect::<io::Result<_>>()?, connection, images })
    }

    /// Returns the drivers, in the order in which they are preferred.
    pub fn drivers(&self) -> Vec<Arc<dyn Driver>> {
        self.drivers.clone()
    }

    /// Returns the states of the images, as the warden last told them.
    pub fn images(&self) -> watch::Receiver<ImageStates> {
        self.images.clone()
    }

    /// Returns when the warden is gone. Calls are not answered from then on: this process can do nothing for its sandboxes, and
    /// must leave them to a server that can.
    pub async fn closed(&self) {
        self.connection.closed.cancelled().await;
    }

    /// Closes the socket. The warden ends.
    pub fn shut_down(&self) -> io::Result<()> {
        self.connection.socket.shut_down()
    }

    /// Removes a workspace. Succeeds if there is none.
    pub async fn remove_workspace(&self, name: &WorkspaceName) -> io::Result<()> {
        let answer = self.connection.call(WardenCall::RemoveWorkspace { name: name.clone() }).await;
        match answer.reply {
            CallReply::Failed(fault) => Err(fault.into_io_error()),
            _ => Ok(()),
        }
    }
}

fn remote(
    connection: &Arc<WardenConnection>,
    index: usize,
    facts: DriverFacts,
) -> io::Result<Arc<dyn Driver>> {
    Ok(Arc::new(RemoteDriver::new(Arc::clone(connection), index, facts)?))
}
