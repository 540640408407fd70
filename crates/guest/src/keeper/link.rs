//! One link: the event stream, and a service for each stream that the host opens.

use std::sync::Arc;

use sandyard_pipe::{FrameError, Framed, Link, PipeStream};
use sandyard_protocol::limits::STREAMS;
use sandyard_protocol::{GuestError, GuestErrorCode, Reply};
use tokio::task::JoinSet;

use super::dispatch::{KeeperServices, dispatch};
use super::event_stream::EventSource;
use super::host_link::HostLink;
use super::stream::{FRAME_LIMITS, HostStream, reply};
use crate::limits::REQUEST_DEADLINE;

/// Serves links, one after another.
pub(super) struct LinkServer {
    pub(super) services: Arc<KeeperServices>,
    pub(super) events: EventSource,
    pub(super) current: Arc<HostLink>,
}

impl LinkServer {
    /// Serves a link until it is lost. Dropping the future ends every stream of the link.
    pub(super) async fn serve(&self, link: Link) {
        let _published = self.current.publish(link.clone());
        let mut streams = JoinSet::new();
        let events = self.events.serve(link.clone());
        tokio::pin!(events);
        loop {
            // No branch is polled first, so a host that opens streams without pause does not starve the event stream. `events` is pinned
            // and goes on; `accept` and `join_next` may be cancelled without loss.
            tokio::select! {
                // A host that drops the event stream can't follow the job: another link may do better.
                _ = &mut events => break,
                stream = link.accept() => match stream {
                    Some(stream) if streams.len() < STREAMS => {
                        streams.spawn(serve_stream(self.services.clone(), stream));
                    }
                    // A stream beyond the bound is dropped, which resets it.
                    Some(_) => {}
                    None => break,
                },
                // Takes ended streams out of the set, so that they no longer count.
                Some(_) = streams.join_next(), if !streams.is_empty() => {}
            }
        }
        link.close();
    }
}

/// Serves one stream. A failure ends this stream alone.
async fn serve_stream(services: Arc<KeeperServices>, stream: PipeStream) {
    let mut stream: HostStream = Framed::new(Box::new(stream), FRAME_LIMITS);
    let request = match tokio::time::timeout(REQUEST_DEADLINE, stream.receive_message()).await {
        Ok(Ok(request)) => request,
        Ok(Err(FrameError::Malformed(what))) => {
            let error = GuestError::new(GuestErrorCode::BadRequest, format!("not a request: {what}"));
            return reply(&mut stream, &Reply::Failed(error)).await;
        }
        _ => return,
    };
    dispatch(services, request, stream).await;
}
