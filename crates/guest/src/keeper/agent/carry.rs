//! From the loop to the host and back, unread. Without a link the connection waits for one; a link that is lost ends it, and
//! the loop comes again.

use sandyard_pipe::{Framed, Link};
use sandyard_protocol::GuestRequest;
use tokio::io::AsyncWriteExt as _;

use crate::keeper::Keeper;
use crate::keeper::link::{FRAME_LIMITS, HostStream};

/// Carries one connection to its end.
pub(super) async fn carry(keeper: &Keeper, request: GuestRequest, stream: HostStream) {
    let (mut connection, early) = stream.into_inner();
    let Some(link) = link(keeper).await else { return };
    let Ok(opened) = link.open().await else { return };
    let mut opened = Framed::new(opened, FRAME_LIMITS);
    if opened.send_message(&request).await.is_err() {
        return;
    }
    let (mut host, _) = opened.into_inner();
    if host.write_all(&early).await.is_ok() && host.flush().await.is_ok() {
        // Either side's failure is the other's end of file.
        let _ = tokio::io::copy_bidirectional(&mut connection, &mut host).await;
    }
}

/// The link that is up, or the next one.
async fn link(keeper: &Keeper) -> Option<Link> {
    keeper.link.subscribe().wait_for(Option::is_some).await.ok()?.clone()
}
