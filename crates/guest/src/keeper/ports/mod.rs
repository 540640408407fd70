//! Ports of the machine: a TCP connection on loopback, carried over a stream as plain bytes. A connect to the port of a known
//! service starts the service (`services`).

mod lab;
mod loopback;
mod services;

use std::sync::Arc;

use sandyard_protocol::{Reply, Request};
use tokio::io::AsyncWriteExt;

pub(super) use services::PortServices;

use super::stream::{HostStream, reply};

/// Serves `ConnectPort`: starts the service of the port if there is one, then carries bytes until either side ends.
pub(super) async fn serve(services: &Arc<PortServices>, request: Request, mut stream: HostStream) {
    let Request::ConnectPort { port } = request else { return };
    let ready = services.ready(port).await;
    let opened = match ready {
        Ok(authorization) => loopback::connect(port).await.map(|connection| (connection, authorization)),
        Err(error) => Err(error),
    };
    let (mut connection, authorization) = match opened {
        Ok(opened) => opened,
        Err(error) => return reply(&mut stream, &Reply::Failed(error)).await,
    };
    let answer = authorization.map_or(Reply::Done, |authorization| Reply::Service { authorization });
    if stream.send_message(&answer).await.is_err() {
        return;
    }
    let (mut host, early) = stream.into_inner();
    if connection.write_all(&early).await.is_ok() {
        // A failure of either side is the other side's end of file.
        let _ = tokio::io::copy_bidirectional(&mut host, &mut connection).await;
    }
}
