//! The stream on which a service answers one request.

use sandyard_pipe::{Duplex, FrameLimits, Framed};
use sandyard_protocol::Reply;
use sandyard_protocol::limits::{DATA_BYTES, REQUEST_BYTES};

/// The bytes under a stream: a stream of the host's link, or a connection of the agent.
pub(super) type ServedStream = Box<dyn Duplex>;
/// A stream between a caller and a service.
pub(super) type HostStream = Framed<ServedStream>;

/// A received message may be a long request. Messages that keeper sends stay within `MESSAGE_BYTES` by themselves.
pub(super) const FRAME_LIMITS: FrameLimits =
    FrameLimits { message_bytes: REQUEST_BYTES, sent_message_bytes: REQUEST_BYTES, data_bytes: DATA_BYTES };

/// Sends the only answer of a stream and closes it. A caller that is gone needs no answer.
pub(super) async fn reply(stream: &mut HostStream, answer: &Reply) {
    if stream.send_message(answer).await.is_ok() {
        let _ = stream.finish().await;
    }
}
