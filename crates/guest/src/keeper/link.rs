//! One link: the event stream, and for each stream that the host opens the service that its first message names.

use std::pin::Pin;
use std::sync::Arc;

use sandyard_pipe::{Duplex, FrameError, FrameLimits, Framed, Link, PipeStream};
use sandyard_protocol::limits::{DATA_BYTES, REQUEST_BYTES, STREAMS};
use sandyard_protocol::{GuestError, GuestErrorCode, Reply, Request};
use tokio::task::JoinSet;

use super::{Keeper, changes, desktop, event_stream, files, job, kernels, ports, processes};
use crate::limits::REQUEST_DEADLINE;

/// The bytes under a stream: of the host's link, or a connection of the loop.
pub(super) type ServedStream = Box<dyn Duplex>;
/// A stream between whoever asks and a service.
pub(super) type HostStream = Framed<ServedStream>;

/// What arrives is the host's and may be a long request; what is sent stays within `MESSAGE_BYTES` by itself.
pub(super) const FRAME_LIMITS: FrameLimits =
    FrameLimits { message_bytes: REQUEST_BYTES, sent_message_bytes: REQUEST_BYTES, data_bytes: DATA_BYTES };

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who serves which requests.
struct Service {
    claims: fn(&Request) -> bool,
    serve: fn(Arc<Keeper>, Request, HostStream) -> Serving,
}

const SERVICES: [Service; 8] = [
    Service {
        claims: |request| {
            matches!(
                request,
                Request::BeginJob(_) | Request::EndJob { .. } | Request::PauseJob | Request::ResumeJob { .. }
            )
        },
        serve: |keeper, request, stream| Box::pin(job::serve(keeper, request, stream)),
    },
    Service {
        claims: |request| {
            matches!(
                request,
                Request::StartProcess(_)
                    | Request::AttachProcess { .. }
                    | Request::SignalProcess { .. }
                    | Request::ListProcesses
            )
        },
        serve: |keeper, request, stream| Box::pin(processes::serve(keeper, request, stream)),
    },
    Service {
        claims: kernels::claims,
        serve: |keeper, request, stream| Box::pin(kernels::serve(keeper, request, stream)),
    },
    Service {
        claims: |request| matches!(request, Request::ConnectPort { .. }),
        serve: |keeper, request, stream| Box::pin(ports::serve(keeper, request, stream)),
    },
    Service {
        claims: desktop::claims,
        serve: |keeper, request, stream| Box::pin(desktop::serve(keeper, request, stream)),
    },
    Service {
        claims: |request| matches!(request, Request::Ping),
        serve: |_, _, mut stream| Box::pin(async move { reply(&mut stream, &Reply::Done).await }),
    },
    Service {
        claims: |request| matches!(request, Request::WorkspaceChanges),
        serve: |keeper, _, stream| Box::pin(changes::serve(keeper, stream)),
    },
    Service {
        claims: files::claims,
        serve: |keeper, request, stream| Box::pin(files::serve(keeper, request, stream)),
    },
];

/// Lends the link to whoever in the guest has something for the host, as long as it is served.
struct Lent<'a>(&'a Keeper);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.link.send_replace(None);
    }
}

/// Serves a link until it is gone. Dropping this ends every stream of it.
pub(super) async fn serve(keeper: Arc<Keeper>, link: Link) {
    keeper.link.send_replace(Some(link.clone()));
    let _lent = Lent(&keeper);
    let mut streams = JoinSet::new();
    let events = event_stream::serve(keeper.clone(), link.clone());
    tokio::pin!(events);
    loop {
        tokio::select! {
            // A host that drops the event stream can't follow the job: another link may do better.
            _ = &mut events => break,
            stream = link.accept() => match stream {
                Some(stream) if streams.len() < STREAMS => {
                    streams.spawn(serve_stream(keeper.clone(), stream));
                }
                // Dropping it resets it.
                Some(_) => {}
                None => break,
            },
            Some(_) = streams.join_next(), if !streams.is_empty() => {}
        }
    }
    link.close();
}

/// One stream. Whatever is wrong with it ends it alone.
async fn serve_stream(keeper: Arc<Keeper>, stream: PipeStream) {
    let mut stream: HostStream = Framed::new(Box::new(stream), FRAME_LIMITS);
    let request = match tokio::time::timeout(REQUEST_DEADLINE, stream.receive_message()).await {
        Ok(Ok(request)) => request,
        Ok(Err(FrameError::Malformed(what))) => {
            let error = GuestError::new(GuestErrorCode::BadRequest, format!("not a request: {what}"));
            return reply(&mut stream, &Reply::Failed(error)).await;
        }
        _ => return,
    };
    dispatch(keeper, request, stream).await;
}

/// Hands a request to its service.
pub(super) async fn dispatch(keeper: Arc<Keeper>, request: Request, stream: HostStream) {
    let _use = (request != Request::Ping).then(|| keeper.in_use.begin());
    if let Some(service) = SERVICES.iter().find(|service| (service.claims)(&request)) {
        (service.serve)(keeper.clone(), request, stream).await;
    }
}

/// Answers and closes. A host that is gone needs no answer.
pub(super) async fn reply(stream: &mut HostStream, answer: &Reply) {
    if stream.send_message(answer).await.is_ok() {
        let _ = stream.finish().await;
    }
}
