//! The daemon that serves the host: the job, processes, files, export, ports, the event spool.
//!
//! Keeper dials the host, serves the link until it is gone and dials again, for ever. Nothing that matters belongs to a
//! link: processes, output and events are in the spool (`spool`, `segments`, `events`), so a lost link, a dead server or
//! a killed keeper loses nothing and repeats nothing. `link` finds the service for each stream; each service is a module.

pub mod agent;
mod capture;
mod changes;
mod clock;
mod descriptor_stream;
pub mod desktop;
mod dial;
mod egress;
mod event_stream;
mod events;
mod exits;
pub mod files;
mod in_use;
mod job;
mod kernels;
mod link;
mod machine_dial;
mod ports;
mod processes;
mod pump;
mod scripts;
mod segments;
mod services;
mod spool;
mod stand_ins;
mod tasks;
mod workers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use sandyard_pipe::{Backoff, Link};
use sandyard_protocol::{Ack, OutputStream, ProcessId, Secret};
use tokio::sync::{mpsc, watch};

pub use dial::{Dial, UnixDial};
pub use machine_dial::{SerialDial, VsockDial};
pub use spool::SpoolError;

use crate::limits::{FIRST_DIAL_WAIT, LONGEST_DIAL_WAIT, SHORT_LINK};
use crate::process_host::{ProcessHost, SpawnError, Survivor, Survivors};
use agent::AgentPlace;
use changes::Changes;
use desktop::{Desktop, DesktopPlaces};
use events::Events;
use exits::Exits;
use files::FileWorkers;
use in_use::InUse;
use job::{Job, Main};
use kernels::Kernels;
use processes::Processes;
use services::Services;
use spool::Spool;
use tasks::Tasks;

/// What keeper must be told at its start.
#[derive(Debug, Clone)]
pub struct KeeperConfig {
    /// Proves host to guest and guest to host.
    pub secret: Secret,
    /// Keeper's own disk; it survives keeper and is hidden from the job.
    pub spool: PathBuf,
    /// A directory that keeper can write and the job can read, for the job's script.
    pub scripts: PathBuf,
    /// Where the job works, as the job sees it.
    pub workspace: PathBuf,
    /// The environment of everything that runs, before the job adds to it.
    pub env: BTreeMap<String, String>,
    /// Where to serve the machine's proxy; nowhere if the machine shares its network.
    pub egress: Option<SocketAddr>,
    /// Where the desktop's parts meet; without it there is none.
    pub desktop: Option<DesktopPlaces>,
    /// Where the loop of a task meets keeper; without it there are no tasks.
    pub agent: Option<AgentPlace>,
}

/// Why keeper had to stop.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// Its disk is of no use.
    #[error("use the spool")]
    Spool(#[from] SpoolError),
    /// Nobody forks for it any more.
    #[error("ask the spawner")]
    Spawner(#[from] SpawnError),
}

/// All that keeper knows, shared by its services.
struct Keeper {
    config: KeeperConfig,
    spool: Arc<Spool>,
    host: Arc<dyn ProcessHost>,
    tasks: Tasks,
    exits: Exits,
    events: Events,
    processes: Processes,
    job: Job,
    kernels: Kernels,
    files: FileWorkers,
    changes: Changes,
    in_use: InUse,
    /// The link that is up.
    link: watch::Sender<Option<Link>>,
    desktop: Desktop,
    services: Services,
    failure: mpsc::Sender<KeeperError>,
}

/// Serves until the machine has to be given up. Dropping the future stops keeper as a kill would: a later `run` on the same
/// spool goes on from there.
pub async fn run(config: KeeperConfig, processes: Arc<dyn ProcessHost>, dial: impl Dial) -> KeeperError {
    match start(config, processes).await {
        Ok((keeper, failures)) => keeper.serve(dial, failures).await,
        Err(error) => error,
    }
}

/// Stops keeper's tasks when keeper stops.
struct Owned(Arc<Keeper>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.tasks.stop();
    }
}

async fn start(
    config: KeeperConfig,
    host: Arc<dyn ProcessHost>,
) -> Result<(Owned, mpsc::Receiver<KeeperError>), KeeperError> {
    let spool = Arc::new(Spool::open(config.spool.clone())?);
    let number = spool.load::<u64>("starts.json")?.unwrap_or(0) + 1;
    spool.store("starts.json", &number)?;
    let (burial, dead) = workers::burial();
    let (failure, failures) = mpsc::channel(1);
    let keeper = Owned(Arc::new(Keeper {
        host: host.clone(),
        tasks: Tasks::default(),
        exits: Exits::default(),
        events: Events::open(spool.clone())?,
        processes: Processes::new(number),
        job: Job::open(&spool)?,
        kernels: Kernels::open(&spool, config.spool.clone(), number)?,
        files: FileWorkers::new(number, burial.clone()),
        changes: Changes::new(number, burial.clone()),
        in_use: InUse::default(),
        link: watch::Sender::new(None),
        desktop: Desktop::new(number, config.scripts.join("control"), burial),
        services: Services::open(&spool)?,
        failure,
        spool,
        config,
    }));
    let Survivors { found, lost } = host.survivors().await?;
    let mut survivors: BTreeMap<ProcessId, Survivor> =
        found.into_iter().map(|survivor| (survivor.command.id.clone(), survivor)).collect();
    if number > 1 {
        keeper.0.events.restarted()?;
    }
    processes::recover(&keeper.0, &mut survivors)?;
    let execution = kernels::recover(&keeper.0, keeper.0.job.execution())?;
    let main = match survivors.remove(&ProcessId::main()) {
        Some(main) => Main::Found(Box::new(main)),
        None if lost.contains(&ProcessId::main()) => Main::Lost,
        None => Main::Never,
    };
    job::recover(&keeper.0, main, execution)?;
    keeper.0.end_strangers(survivors);
    if let Some(address) = keeper.0.config.egress {
        keeper.0.tasks.spawn(egress::serve(keeper.0.clone(), address));
    }
    // Without them a job still works, with fewer words.
    let _ = stand_ins::write(&keeper.0.config.scripts);
    if let Some(place) = keeper.0.config.agent.clone() {
        keeper.0.tasks.spawn(agent::serve(keeper.0.clone(), place));
    }
    keeper.0.tasks.spawn(deliver_exits(keeper.0.clone()));
    desktop::begin(&keeper.0);
    keeper.0.tasks.spawn(workers::bury(keeper.0.clone(), dead));
    Ok((keeper, failures))
}

/// Tells each end to whoever waits for it; what nobody waits for is a worker's.
async fn deliver_exits(keeper: Arc<Keeper>) {
    loop {
        match keeper.host.next_exit().await {
            Ok(exit) => {
                let id = exit.id.clone();
                if !keeper.exits.deliver(exit) {
                    let _ = keeper.host.forget(&id).await;
                }
            }
            Err(error) => {
                keeper.fail(error.into());
                return;
            }
        }
    }
}

impl Owned {
    async fn serve(self, mut dial: impl Dial, mut failures: mpsc::Receiver<KeeperError>) -> KeeperError {
        tokio::select! {
            Some(error) = failures.recv() => error,
            error = self.0.serve_links(&mut dial) => error,
        }
    }
}

impl Keeper {
    /// One link after another. A link is given up when it is gone, or when a newer server is reached.
    async fn serve_links(self: &Arc<Self>, dial: &mut impl Dial) -> KeeperError {
        let mut backoff = Backoff::new(FIRST_DIAL_WAIT, LONGEST_DIAL_WAIT);
        let mut next = None;
        loop {
            let link = match next.take() {
                Some(link) => link,
                None => match self.connect(dial).await {
                    Ok(link) => link,
                    Err(error) => return error.into(),
                },
            };
            let began = Instant::now();
            let serving = link::serve(self.clone(), link);
            tokio::pin!(serving);
            tokio::select! {
                () = &mut serving => {
                    // A host that welcomes and drops us at once must not make us spin.
                    if began.elapsed() > SHORT_LINK {
                        backoff.reset();
                    } else {
                        tokio::time::sleep(backoff.next_wait()).await;
                    }
                }
                newer = self.newer_link(dial) => match newer {
                    Ok(link) => next = Some(link),
                    Err(error) => return error.into(),
                },
            }
        }
    }

    async fn newer_link(&self, dial: &mut impl Dial) -> Result<Link, SpoolError> {
        dial.replaced().await;
        self.connect(dial).await
    }

    /// Dials until a host proves itself with an epoch that is not stale.
    async fn connect(&self, dial: &mut impl Dial) -> Result<Link, SpoolError> {
        let mut backoff = Backoff::new(FIRST_DIAL_WAIT, LONGEST_DIAL_WAIT);
        loop {
            if let Ok(stream) = dial.dial().await {
                let lowest_epoch = self.spool.load("epoch.json")?.unwrap_or(0);
                if let Ok((link, welcome)) =
                    sandyard_pipe::join(stream, self.config.secret.expose(), lowest_epoch).await
                {
                    self.spool.store("epoch.json", &welcome.epoch)?;
                    return Ok(link);
                }
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// The host has committed this much; it may be forgotten.
    fn acknowledge(&self, ack: &Ack) {
        self.stop_on(self.events.acknowledge(ack.sequence));
        self.job.output(OutputStream::Stdout).acknowledge(ack.output.stdout);
        self.job.output(OutputStream::Stderr).acknowledge(ack.output.stderr);
    }

    /// Makes keeper stop; the first reason is the one that counts.
    fn fail(&self, error: KeeperError) {
        let _ = self.failure.try_send(error);
    }

    /// Keeper can't go on without its spool: init starts another, which may find the disk better.
    fn stop_on(&self, outcome: Result<(), SpoolError>) {
        if let Err(error) = outcome {
            self.fail(error.into());
        }
    }

    /// Drops what the spawner keeps of an ended process.
    fn forget_later(self: &Arc<Self>, id: ProcessId) {
        let keeper = self.clone();
        self.tasks.spawn(async move {
            let _ = keeper.host.forget(&id).await;
        });
    }

    /// Kills what the keeper before started and nobody knows any more: its file workers.
    fn end_strangers(self: &Arc<Self>, survivors: BTreeMap<ProcessId, Survivor>) {
        for (id, survivor) in survivors {
            let keeper = self.clone();
            self.tasks.spawn(async move {
                let _ = match survivor.exit {
                    Some(_) => keeper.host.forget(&id).await,
                    None => keeper.host.signal(&id, 9).await,
                };
            });
        }
    }
}

#[cfg(test)]
mod keeper_tests;
