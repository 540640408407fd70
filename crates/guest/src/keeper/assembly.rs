//! Constructs every service of keeper, hands each its collaborators, and takes up the state of the earlier keeper.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandyard_protocol::ProcessId;
use tokio::sync::mpsc;

use super::activity::RequestActivity;
use super::agent::{self, AgentServer};
use super::command_hints;
use super::config::KeeperConfig;
use super::core::{KeeperCore, KeeperError};
use super::desktop::{DesktopParts, DesktopService};
use super::dispatch::KeeperServices;
use super::egress;
use super::environment::ProcessEnvironment;
use super::event_stream::EventSource;
use super::events::EventLog;
use super::exits::Exits;
use super::files::FileWorkers;
use super::host_link::HostLink;
use super::job::state::MachineJob;
use super::job::{JobContext, JobService, MainProcess};
use super::kernels::{self, KernelServices};
use super::link::LinkServer;
use super::ports::PortServices;
use super::processes::{ProcessCollaborators, Processes};
use super::request_keys::RequestKeys;
use super::spool::{Spool, SpoolError};
use super::workers::WorkerStarter;
use super::workspace_changes::ChangeDetector;
use crate::process_host::{ProcessHost, Survivor, Survivors};

const STARTS_DOCUMENT: &str = "starts.json";

/// A keeper that is ready to serve links. Dropping it stops its tasks.
pub(super) struct AssembledKeeper {
    pub(super) core: Arc<KeeperCore>,
    pub(super) exits: Arc<Exits>,
    pub(super) links: LinkServer,
}

impl Drop for AssembledKeeper {
    fn drop(&mut self) {
        self.core.tasks.stop();
    }
}

/// Builds a keeper. Also returns the receiver of the failure that stops it.
pub(super) async fn assemble(
    config: &KeeperConfig,
    host: Arc<dyn ProcessHost>,
) -> Result<(AssembledKeeper, mpsc::Receiver<KeeperError>), KeeperError> {
    let spool = Arc::new(Spool::open(config.spool.clone())?);
    let number = spool.load::<u64>(STARTS_DOCUMENT)?.unwrap_or(0) + 1;
    // Stored before the first name is made from it: a name that was used before the crash must not be used again.
    spool.store(STARTS_DOCUMENT, &number)?;
    let (core, failures) = KeeperCore::new(number, spool, host);
    let exits = Arc::new(Exits::default());
    let current = Arc::new(HostLink::default());
    // From here on a failure must stop the tasks that were begun.
    let stop = StopOnFailure(Some(core.clone()));
    let links = services(config, &core, &exits, &current).await?;
    stop.disarm();
    Ok((AssembledKeeper { core, exits, links }, failures))
}

/// Stops the tasks of a keeper that could not be assembled.
struct StopOnFailure(Option<Arc<KeeperCore>>);

impl StopOnFailure {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for StopOnFailure {
    fn drop(&mut self) {
        if let Some(core) = &self.0 {
            core.tasks.stop();
        }
    }
}

/// The services that exist before the state of the earlier keeper is taken up.
struct EarlyServices {
    events: Arc<EventLog>,
    job: Arc<MachineJob>,
    processes: Arc<Processes>,
    files: Arc<FileWorkers>,
    changes: ChangeDetector,
    ports: Arc<PortServices>,
    desktop: DesktopService,
    keys: Arc<RequestKeys>,
}

impl EarlyServices {
    fn new(
        config: &KeeperConfig,
        core: &Arc<KeeperCore>,
        exits: &Arc<Exits>,
        link: &Arc<HostLink>,
    ) -> Result<Self, SpoolError> {
        let environment = Arc::new(ProcessEnvironment::new(config.env.clone()));
        let events = Arc::new(EventLog::open(core.spool.clone())?);
        let job = Arc::new(MachineJob::open(core.spool.clone(), environment.clone())?);
        let starter = WorkerStarter::new(core.clone(), config.workspace.clone());
        let files = Arc::new(FileWorkers::new(starter.clone(), environment.clone()));
        let changes = ChangeDetector::new(starter.clone(), environment.clone());
        let workspace = config.workspace.clone();
        let keys = Arc::new(RequestKeys::open(core.spool.clone())?);
        let collaborators = ProcessCollaborators {
            core: core.clone(),
            exits: exits.clone(),
            environment,
            link: link.clone(),
            keys: keys.clone(),
        };
        let processes = Arc::new(Processes::new(collaborators, workspace));
        let ports = PortServices::open(core.clone(), processes.clone(), config.scripts.clone())?;
        let desktop_parts = DesktopParts {
            processes: processes.clone(),
            events: events.clone(),
            job: job.clone(),
            starter,
            scripts: config.scripts.clone(),
            places: config.desktop.clone(),
        };
        let desktop = DesktopService::new(core.clone(), desktop_parts);
        Ok(Self { events, job, processes, files, changes, ports: Arc::new(ports), desktop, keys })
    }
}

async fn services(
    config: &KeeperConfig,
    core: &Arc<KeeperCore>,
    exits: &Arc<Exits>,
    current: &Arc<HostLink>,
) -> Result<LinkServer, KeeperError> {
    let early = EarlyServices::new(config, core, exits, current)?;
    let EarlyServices { events, job, processes, files, changes, ports, desktop, keys } = early;
    let Survivors { found, lost } = core.host.survivors().await?;
    let mut survivors: BTreeMap<ProcessId, Survivor> =
        found.into_iter().map(|survivor| (survivor.command.id.clone(), survivor)).collect();
    if core.number > 1 {
        events.restarted()?;
    }
    // Processes first: kernels, the job and the desktop find their own among them.
    processes.recover(&mut survivors)?;
    let kernel_services = KernelServices {
        processes: processes.clone(),
        files: files.clone(),
        job: job.clone(),
        events: events.clone(),
        keys,
    };
    let (kernels, execution) = kernels::recover(core.clone(), kernel_services)?;
    let kernels = Arc::new(kernels);
    let main = match survivors.remove(&ProcessId::main()) {
        Some(main) => MainProcess::Found(Box::new(main)),
        None if lost.contains(&ProcessId::main()) => MainProcess::Lost,
        None => MainProcess::Never,
    };
    let activity = Arc::new(RequestActivity::default());
    let job_service = JobService::new(JobContext {
        core: core.clone(),
        events: events.clone(),
        state: job.clone(),
        processes: processes.clone(),
        kernels: kernels.clone(),
        activity: activity.clone(),
        observer: desktop.last_picture(),
        scripts: config.scripts.clone(),
        agent_socket: config.agent.as_ref().map(|place| place.socket.clone()),
    });
    // After processes and kernels: the job follows a process or an execution that they have taken up.
    job_service.recover(main, execution)?;
    // Last: by now every service has taken its own out of the map.
    end_unknown(core, survivors);
    let services =
        KeeperServices { activity, job: job_service, processes, kernels, ports, desktop, changes, files };
    let services = Arc::new(services);
    // Only now may programs of the machine connect: they would see services without their earlier state.
    begin_tasks(config, core, &services, current);
    let events = EventSource { core: core.clone(), events, job };
    Ok(LinkServer { services, events, current: current.clone() })
}

/// Begins the tasks that wait for connections from inside the machine.
fn begin_tasks(
    config: &KeeperConfig,
    core: &Arc<KeeperCore>,
    services: &Arc<KeeperServices>,
    link: &Arc<HostLink>,
) {
    if let Some(address) = config.egress {
        core.tasks.spawn(egress::serve(core.clone(), link.clone(), address));
    }
    // Without them a job still works, with less helpful messages.
    let _ = command_hints::write(&config.scripts);
    if let Some(place) = config.agent.clone() {
        let server = AgentServer { core: core.clone(), services: services.clone(), link: link.clone() };
        core.tasks.spawn(agent::serve(Arc::new(server), place));
    }
    services.desktop.begin();
}

/// Kills the processes of the earlier keeper that no service knows: its workers.
fn end_unknown(core: &Arc<KeeperCore>, survivors: BTreeMap<ProcessId, Survivor>) {
    for (id, survivor) in survivors {
        let owner = core.clone();
        core.tasks.spawn(async move {
            let _ = match survivor.exit {
                Some(_) => owner.host.forget(&id).await,
                None => owner.host.signal(&id, 9).await,
            };
        });
    }
}
