//! Carries a connection of the agent to the host and back, unread. Without a link the connection waits for one. A lost link ends
//! the connection, and the agent connects again.

use sandyard_pipe::Framed;
use sandyard_protocol::GuestRequest;
use tokio::io::AsyncWriteExt as _;

use crate::keeper::host_link::HostLink;
use crate::keeper::stream::{FRAME_LIMITS, HostStream};

/// Carries one connection to its end.
pub(super) async fn carry(link: &HostLink, request: GuestRequest, stream: HostStream) {
    // The agent may have sent more than its first message; these bytes go to the host first.
    let (mut connection, early) = stream.into_inner();
    let Some(link) = link.wait().await else { return };
    let Ok(opened) = link.open().await else { return };
    let mut opened = Framed::new(opened, FRAME_LIMITS);
    if opened.send_message(&request).await.is_err() {
        return;
    }
    let (mut host, _) = opened.into_inner();
    if host.write_all(&early).await.is_ok() && host.flush().await.is_ok() {
        // A failure of either side is the other side's end of file.
        let _ = tokio::io::copy_bidirectional(&mut connection, &mut host).await;
    }
}
