//! The proxy of the machine: a port on loopback whose connections are carried to the host, which decides about them.
//!
//! Keeper reads nothing of the carried bytes. While no link is up, a connection waits for one.

use std::net::SocketAddr;
use std::sync::Arc;

use sandyard_pipe::Framed;
use sandyard_protocol::GuestRequest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::core::KeeperCore;
use super::host_link::HostLink;
use super::stream::FRAME_LIMITS;
use crate::limits::{EGRESS_CONNECTIONS, EGRESS_LINK_WAIT, LISTEN_AGAIN};

/// Accepts connections until keeper stops, at most `EGRESS_CONNECTIONS` at once.
pub(super) async fn serve(core: Arc<KeeperCore>, link: Arc<HostLink>, address: SocketAddr) {
    let room = Arc::new(Semaphore::new(EGRESS_CONNECTIONS));
    loop {
        // The job may take the port while keeper is being restarted. It only cuts itself off.
        if let Ok(listener) = TcpListener::bind(address).await {
            while let Ok((connection, _)) = listener.accept().await {
                // A connection beyond the bound is dropped, which closes it.
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                let link = Arc::clone(&link);
                core.tasks.spawn(async move {
                    carry(&link, connection).await;
                    drop(permit);
                });
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn carry(link: &HostLink, mut connection: TcpStream) {
    let Ok(Some(link)) = tokio::time::timeout(EGRESS_LINK_WAIT, link.wait()).await else { return };
    let Ok(stream) = link.open().await else { return };
    let mut stream = Framed::new(stream, FRAME_LIMITS);
    if stream.send_message(&GuestRequest::Egress).await.is_err() {
        return;
    }
    // Both sides wait for single small messages. A failure costs only latency.
    let _ = connection.set_nodelay(true);
    let (mut host, _) = stream.into_inner();
    // A failure of either side is the other side's end of file.
    let _ = tokio::io::copy_bidirectional(&mut connection, &mut host).await;
}
