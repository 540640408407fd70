//! The warden's side: takes calls from the socket, checks them, has the drivers perform them, and answers.
//!
//! The server is not trusted here. Names are checked as they are decoded, limits are held to the operator's, calls are bounded in
//! number, and a message that can't be read ends the warden.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinSet};

use super::faults::{CallFault, bounded};
use super::messages::{
    CallReply, DriverCall, DriverFacts, LIST_PART, ServerMessage, StartOrder, WardenCall, WardenMessage,
};
use super::places::WorkspacePlaces;
use super::socket::WardenSocket;
use crate::driver::{Availability, Binding, Driver, FoundSandbox, Limits, SandboxSpec};
use crate::host::packets::{self, SocketPacket};
use crate::image::{ImageFlavour, ImageState};

/// Calls that may be open at once: two for each of 4,096 sandboxes wait for links and deaths, and as many again.
const MAX_CALLS: usize = 16_384;
/// Reports of progress that may wait for the socket; more are left out.
const PROGRESS_QUEUE: usize = 4;

/// States of the images by flavour.
pub type ImageStates = BTreeMap<ImageFlavour, ImageState>;

/// The drivers of a yard, and the rules for calls to them.
pub struct WardenService {
    /// The drivers, in the order in which the server prefers them.
    pub drivers: Vec<Arc<dyn Driver>>,
    /// Folders of the workspaces.
    pub places: WorkspacePlaces,
    /// Highest limits of a sandbox.
    pub greatest_limits: Limits,
    /// States of the images. The server learns of each change.
    pub images: watch::Receiver<ImageStates>,
}

/// Tells the server why there are no drivers.
pub async fn refuse(socket: OwnedFd, reason: String) -> io::Result<()> {
    WardenSocket::new(socket)?.send(&WardenMessage::Refused { reason: bounded(reason) }, None).await
}

impl WardenService {
    /// Serves one server, to the end of its socket. Calls that are open then are given up, as at a crash: drivers find out later
    /// how far they came.
    pub async fn serve(self, socket: OwnedFd) -> io::Result<()> {
        let mut images = self.images.clone();
        let warden = Arc::new(OpenWarden { socket: WardenSocket::new(socket)?, service: self });
        let drivers = warden.service.drivers.iter().map(|driver| facts(driver.as_ref())).collect();
        let states = images.borrow_and_update().clone().into_iter().collect();
        warden.socket.send(&WardenMessage::Opened { drivers, images: states }, None).await?;
        let mut calls = OpenCalls::default();
        let served = warden.take_calls(&mut calls, &mut images).await;
        // The drivers go with the last call that holds them.
        calls.tasks.shutdown().await;
        served
    }
}

fn facts(driver: &dyn Driver) -> DriverFacts {
    DriverFacts {
        name: driver.name().to_owned(),
        isolation: driver.isolation(),
        boot_time_ms: boot_time_ms(driver),
        binds: driver.binds(),
    }
}

fn boot_time_ms(driver: &dyn Driver) -> u64 {
    u64::try_from(driver.boot_time().as_millis()).unwrap_or(u64::MAX)
}

/// Calls that are not answered yet.
#[derive(Default)]
struct OpenCalls {
    tasks: JoinSet<()>,
    by_number: HashMap<u64, AbortHandle>,
    numbers: HashMap<Id, u64>,
}

impl OpenCalls {
    /// Begins or cancels a call. Fails if the server broke the protocol.
    fn take(&mut self, warden: &Arc<OpenWarden>, packet: &SocketPacket) -> io::Result<()> {
        let broken = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
        // The server has nothing to hand over.
        if !packet.fds.is_empty() || packet.lost_fds {
            return Err(broken("the server sent a descriptor"));
        }
        match packets::decode(&packet.bytes)? {
            ServerMessage::Cancel { number } => {
                if let Some(task) = self.by_number.get(&number) {
                    task.abort();
                }
            }
            ServerMessage::Call { number, call } => {
                if self.by_number.len() >= MAX_CALLS || self.by_number.contains_key(&number) {
                    return Err(broken("the server made too many calls, or two with one number"));
                }
                let task = self.tasks.spawn(Arc::clone(warden).answer(number, call));
                self.numbers.insert(task.id(), number);
                self.by_number.insert(number, task);
            }
        }
        Ok(())
    }

    fn forget(&mut self, id: Id) {
        if let Some(number) = self.numbers.remove(&id) {
            self.by_number.remove(&number);
        }
    }
}

struct OpenWarden {
    socket: WardenSocket,
    service: WardenService,
}

/// What a call returned, with the link if it is one.
type CallOutcome = Result<(CallReply, Option<OwnedFd>), CallFault>;

impl OpenWarden {
    async fn take_calls(
        self: &Arc<Self>,
        calls: &mut OpenCalls,
        images: &mut watch::Receiver<ImageStates>,
    ) -> io::Result<()> {
        loop {
            // The order is of no importance: each branch only takes in what has happened, and dropping it loses nothing.
            tokio::select! {
                packet = self.socket.receive() => {
                    let packet = packet?;
                    if packet.is_end() {
                        return Ok(());
                    }
                    calls.take(self, &packet)?;
                }
                Some(ended) = calls.tasks.join_next_with_id() => {
                    let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                    calls.forget(id);
                }
                Ok(()) = images.changed() => {
                    let states = images.borrow_and_update().clone().into_iter().collect();
                    self.socket.send(&WardenMessage::Images { states }, None).await?;
                }
            }
        }
    }

    async fn answer(self: Arc<Self>, number: u64, call: WardenCall) {
        // The server would wait for ever for an answer that a panic took away.
        let outcome = AssertUnwindSafe(self.perform(number, call)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| {
            Err(CallFault::step("use the driver", &io::Error::other("it has a fault; the log has more")))
        });
        let (reply, link) = outcome.unwrap_or_else(|fault| (CallReply::Failed(fault), None));
        let sent =
            self.socket.send(&WardenMessage::Reply { number, reply }, link.as_ref().map(AsFd::as_fd)).await;
        if let Err(error) = sent {
            // The socket is closed, which ends the warden, or the answer could not be written.
            tracing::debug!(%error, number, "an answer was not sent");
        }
    }

    async fn perform(&self, number: u64, call: WardenCall) -> CallOutcome {
        match call {
            WardenCall::RemoveWorkspace { name } => {
                let places = self.service.places.clone();
                blocking(move || places.remove(&name)).await?;
                Ok((CallReply::Done, None))
            }
            WardenCall::Driver { driver, call } => {
                let driver = self.service.drivers.get(driver);
                let missing = || CallFault::Unusable { detail: "there is no such driver".to_owned() };
                self.drive(number, driver.ok_or_else(missing)?.as_ref(), call).await
            }
        }
    }

    async fn drive(&self, number: u64, driver: &dyn Driver, call: DriverCall) -> CallOutcome {
        let reply = match call {
            DriverCall::Availability => {
                let Availability { verdict, offer, detail, fix } = driver.availability().await;
                let report = Availability { verdict, offer, detail: bounded(detail), fix: fix.map(bounded) };
                CallReply::Availability {
                    report,
                    isolation: driver.isolation(),
                    boot_time_ms: boot_time_ms(driver),
                }
            }
            DriverCall::PrepareImage { image } => {
                self.telling(number, |report| async move {
                    driver.prepare_image(&image, &move |text| drop(report.try_send(text))).await
                })
                .await?;
                CallReply::Done
            }
            DriverCall::Start(order) => {
                driver.start(&self.spec(*order).await?).await?;
                CallReply::Done
            }
            DriverCall::Bind { id, limits, workspace } => {
                self.check(&limits)?;
                let places = self.service.places.clone();
                let workspace = match workspace {
                    Some(name) => Some(blocking(move || places.make(&name)).await?),
                    None => None,
                };
                driver.bind(&id, &Binding { limits, workspace }).await?;
                CallReply::Done
            }
            DriverCall::NextLink { id } => {
                let link = driver.next_link(&id).await?;
                return Ok((CallReply::Link, Some(link.into_descriptor()?)));
            }
            DriverCall::WaitDead { id } => {
                driver.wait_dead(&id).await;
                CallReply::Done
            }
            DriverCall::Stop { id } => {
                driver.stop(&id).await?;
                CallReply::Done
            }
            DriverCall::List => self.list(number, driver.list().await?).await?,
            DriverCall::Find { id } => CallReply::Found(driver.find(&id).await?),
            DriverCall::DiskState { id } => CallReply::DiskState(driver.disk_state(&id).await),
            DriverCall::Usage { id } => CallReply::Usage(driver.usage(&id).await?),
        };
        Ok((reply, None))
    }

    /// Runs a call and sends what it reports meanwhile.
    async fn telling<T, F: Future<Output = T>>(
        &self,
        number: u64,
        call: impl FnOnce(mpsc::Sender<String>) -> F,
    ) -> T {
        let (sender, mut reports) = mpsc::channel(PROGRESS_QUEUE);
        let mut call = std::pin::pin!(call(sender));
        loop {
            // A report that is being sent when the call ends is of no use any more.
            tokio::select! {
                outcome = &mut call => return outcome,
                Some(text) = reports.recv() => {
                    let told = WardenMessage::Progress { number, text: bounded(text) };
                    drop(self.socket.send(&told, None).await);
                }
            }
        }
    }

    /// Sends all parts of a list but the last, which is the answer.
    async fn list(&self, number: u64, found: Vec<FoundSandbox>) -> io::Result<CallReply> {
        let mut parts: Vec<_> = found.chunks(LIST_PART).map(<[_]>::to_vec).collect();
        let last = parts.pop().unwrap_or_default();
        for found in parts {
            let reply = CallReply::Sandboxes { found, more: true };
            self.socket.send(&WardenMessage::Reply { number, reply }, None).await?;
        }
        Ok(CallReply::Sandboxes { found: last, more: false })
    }

    /// Completes and checks a specification.
    async fn spec(&self, order: StartOrder) -> Result<SandboxSpec, CallFault> {
        let StartOrder { id, image, workspace, limits, lifetime_s, secret } = order;
        self.check(&limits)?;
        let places = self.service.places.clone();
        let workspace = blocking(move || places.make(&workspace)).await?;
        Ok(SandboxSpec { id, image, workspace, limits, lifetime_s, secret })
    }

    /// Refuses limits beyond the operator's.
    fn check(&self, limits: &Limits) -> Result<(), CallFault> {
        let most = &self.service.greatest_limits;
        let fits = limits.cpus > 0.0
            && limits.cpus <= most.cpus
            && limits.memory_mib <= most.memory_mib
            && limits.disk_mib <= most.disk_mib
            && limits.pids <= most.pids
            && limits.io_mib_s <= most.io_mib_s;
        let beyond = || io::Error::other("they are beyond what the operator allows");
        if fits { Ok(()) } else { Err(CallFault::step("check the limits", &beyond())) }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
