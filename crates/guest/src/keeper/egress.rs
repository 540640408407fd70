//! The proxy of the machine: a port on loopback whose connections are carried to the host, which decides about them.
//!
//! Keeper reads nothing of what it carries. While no link is up, a connection waits for one.

use std::net::SocketAddr;
use std::sync::Arc;

use sandyard_pipe::Framed;
use sandyard_protocol::GuestRequest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Keeper;
use super::link::FRAME_LIMITS;
use crate::limits::{EGRESS_CONNECTIONS, EGRESS_LINK_WAIT, LISTEN_AGAIN};

/// Takes connections for ever.
pub(super) async fn serve(keeper: Arc<Keeper>, address: SocketAddr) {
    let room = Arc::new(Semaphore::new(EGRESS_CONNECTIONS));
    loop {
        // The job may hold the port while keeper is being restarted; it only cuts itself off.
        if let Ok(listener) = TcpListener::bind(address).await {
            while let Ok((connection, _)) = listener.accept().await {
                // A flood waits for itself: dropping the connection closes it.
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                let owner = Arc::clone(&keeper);
                keeper.tasks.spawn(async move {
                    carry(&owner, connection).await;
                    drop(permit);
                });
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn carry(keeper: &Keeper, mut connection: TcpStream) {
    let mut link = keeper.link.subscribe();
    let found = tokio::time::timeout(EGRESS_LINK_WAIT, link.wait_for(Option::is_some)).await;
    let Ok(Ok(link)) = found.map(|found| found.map(|link| link.clone())) else { return };
    let Some(link) = link else { return };
    let Ok(stream) = link.open().await else { return };
    let mut stream = Framed::new(stream, FRAME_LIMITS);
    if stream.send_message(&GuestRequest::Egress).await.is_err() {
        return;
    }
    // Both sides wait for single small messages; a failure costs only latency.
    let _ = connection.set_nodelay(true);
    let (mut host, _) = stream.into_inner();
    // Either side's failure is the other's end of file.
    let _ = tokio::io::copy_bidirectional(&mut connection, &mut host).await;
}
