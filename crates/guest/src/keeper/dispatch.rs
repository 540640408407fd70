//! Finds the service for each request, by a table.

use std::pin::Pin;
use std::sync::Arc;

use sandyard_protocol::{Reply, Request};

use super::activity::RequestActivity;
use super::desktop::{self, DesktopService};
use super::files::{self, FileWorkers};
use super::job::JobService;
use super::kernels::{self, Kernels};
use super::ports::{self, PortServices};
use super::processes::{self, Processes};
use super::stream::{HostStream, reply};
use super::workspace_changes::ChangeDetector;

/// Every service that answers requests. They do not know this struct.
pub(super) struct KeeperServices {
    pub(super) activity: Arc<RequestActivity>,
    pub(super) job: JobService,
    pub(super) processes: Arc<Processes>,
    pub(super) kernels: Arc<Kernels>,
    pub(super) ports: Arc<PortServices>,
    pub(super) desktop: DesktopService,
    pub(super) changes: ChangeDetector,
    pub(super) files: Arc<FileWorkers>,
}

type ServedRequest = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One row of the table.
struct ServiceEntry {
    claims: fn(&Request) -> bool,
    serve: fn(Arc<KeeperServices>, Request, HostStream) -> ServedRequest,
}

const SERVICES: [ServiceEntry; 8] = [
    ServiceEntry {
        claims: |request| {
            matches!(
                request,
                Request::BeginJob(_) | Request::EndJob { .. } | Request::PauseJob | Request::ResumeJob { .. }
            )
        },
        serve: |services, request, stream| Box::pin(async move { services.job.serve(request, stream).await }),
    },
    ServiceEntry {
        claims: |request| {
            matches!(
                request,
                Request::StartProcess(_)
                    | Request::AttachProcess { .. }
                    | Request::SignalProcess { .. }
                    | Request::ListProcesses
            )
        },
        serve: |services, request, stream| {
            Box::pin(processes::serve(services.processes.clone(), request, stream))
        },
    },
    ServiceEntry {
        claims: kernels::claims,
        serve: |services, request, stream| {
            Box::pin(kernels::serve(services.kernels.clone(), request, stream))
        },
    },
    ServiceEntry {
        claims: |request| matches!(request, Request::ConnectPort { .. }),
        serve: |services, request, stream| {
            Box::pin(async move { ports::serve(&services.ports, request, stream).await })
        },
    },
    ServiceEntry {
        claims: desktop::claims,
        serve: |services, request, stream| {
            Box::pin(async move { services.desktop.serve(request, stream).await })
        },
    },
    ServiceEntry {
        claims: |request| matches!(request, Request::Ping),
        serve: |_, _, mut stream| Box::pin(async move { reply(&mut stream, &Reply::Done).await }),
    },
    ServiceEntry {
        claims: |request| matches!(request, Request::WorkspaceChanges),
        serve: |services, _, stream| Box::pin(async move { services.changes.serve(stream).await }),
    },
    ServiceEntry {
        claims: files::claims,
        serve: |services, request, stream| {
            Box::pin(async move { files::serve(&services.files, request, stream).await })
        },
    },
];

/// Hands a request to its service and waits until it is served.
pub(super) async fn dispatch(services: Arc<KeeperServices>, request: Request, stream: HostStream) {
    // A ping shows that keeper lives, and a recording lasts as long as the link: neither means that somebody uses the machine.
    let uses = !matches!(request, Request::Ping | Request::RecordDesktop);
    let _active = uses.then(|| services.activity.begin());
    if let Some(service) = SERVICES.iter().find(|service| (service.claims)(&request)) {
        (service.serve)(services.clone(), request, stream).await;
    }
}
