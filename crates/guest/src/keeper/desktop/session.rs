//! The programs of a desktop: started together through the process service, as the job's own user; found again by the next keeper;
//! started anew when they died.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{EndReason, Exit, GuestError, GuestErrorCode, OutputStream, ProcessId};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};

use super::answer::internal;
use super::display::{self, DISPLAY_NUMBER, DesktopPlaces, DisplaySocket, carry_to_server};
use super::pool::DesktopWorkers;
use super::programs::{self, SOCKET};
use super::usage::LastUse;
use crate::keeper::clock::milliseconds;
use crate::keeper::core::KeeperCore;
use crate::keeper::events::EventLog;
use crate::keeper::processes::{Ending, ManagedProcess, Processes};
use crate::limits::TERMINATION_GRACE;

const DOCUMENT: &str = "desktop.json";
/// Notes about the desktop that one keeper sends.
const MAX_NOTES: usize = 20;

/// The desktop's programs and everything that starts them.
pub(super) struct DesktopSession {
    core: Arc<KeeperCore>,
    processes: Arc<Processes>,
    events: Arc<EventLog>,
    workers: DesktopWorkers,
    /// `None` if this machine has no desktop.
    places: Option<DesktopPlaces>,
    programs: Mutex<DesktopPrograms>,
    up: watch::Sender<bool>,
    last_use: LastUse,
}

/// The programs, if they run.
#[derive(Debug, Default)]
struct DesktopPrograms {
    server: Option<Arc<ManagedProcess>>,
    companions: Vec<Arc<ManagedProcess>>,
    /// The socket that has the display's name.
    bell: Option<Arc<DisplaySocket>>,
    /// The server whose end a task waits for.
    watched: Option<ProcessId>,
    /// True once the programs of the earlier keeper were looked for.
    looked: bool,
    notes: usize,
}

/// The names of the programs, for the next keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct DesktopDocument {
    server: ProcessId,
    companions: Vec<ProcessId>,
}

impl DesktopPrograms {
    fn is_up(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.exit().is_none())
    }

    fn end_companions(&mut self) {
        for companion in self.companions.drain(..) {
            companion.end(Ending::after(EndReason::Cancelled, milliseconds(TERMINATION_GRACE)));
        }
    }
}

impl DesktopSession {
    pub(super) fn new(
        core: Arc<KeeperCore>,
        processes: Arc<Processes>,
        events: Arc<EventLog>,
        workers: DesktopWorkers,
        places: Option<DesktopPlaces>,
    ) -> Self {
        let (programs, up) = (Mutex::default(), watch::Sender::new(false));
        Self { core, processes, events, workers, places, programs, up, last_use: LastUse::default() }
    }

    pub(super) fn places(&self) -> Option<&DesktopPlaces> {
        self.places.as_ref()
    }

    pub(super) fn workers(&self) -> &DesktopWorkers {
        &self.workers
    }

    pub(super) fn last_use(&self) -> &LastUse {
        &self.last_use
    }

    /// Whether the desktop runs, and its changes.
    pub(super) fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// A variable that the job sets.
    pub(super) fn job_variable(&self, name: &str) -> Option<String> {
        self.processes.environment().of_job().remove(name)
    }

    /// Returns the socket that has the display's name while the desktop is down, and makes it if need be.
    pub(super) async fn bell(&self) -> Option<Arc<DisplaySocket>> {
        let places = self.places.as_ref()?;
        let mut programs = self.programs.lock().await;
        if programs.is_up() {
            return None;
        }
        if programs.bell.is_none() {
            programs.bell = DisplaySocket::for_bell(places).ok().map(Arc::new);
        }
        programs.bell.clone()
    }

    /// True if the desktop runs now.
    pub(super) async fn is_up(&self) -> bool {
        let mut programs = self.programs.lock().await;
        self.look_for_survivors(&mut programs);
        programs.is_up()
    }

    /// Starts the desktop unless it runs.
    pub(super) async fn ensure(self: &Arc<Self>) -> Result<DesktopPlaces, GuestError> {
        let Some(places) = self.places.clone() else {
            return Err(GuestError::new(GuestErrorCode::NotFound, "this machine has no desktop"));
        };
        self.last_use.touch();
        let mut programs = self.programs.lock().await;
        self.look_for_survivors(&mut programs);
        if programs.is_up() {
            self.announce(&mut programs);
            return Ok(places);
        }
        if let Some(exit) = programs.server.take().and_then(|server| server.exit())
            && exit.reason == EndReason::Own
        {
            let text = format!("the desktop had died (exit code {}) and is started again", exit.code);
            self.note(&mut programs, text);
        }
        programs.end_companions();
        self.workers.dismiss();
        self.start(&mut programs, &places).await?;
        self.announce(&mut programs);
        Ok(places)
    }

    /// Notes that the desktop could not be started for a program that needs it.
    pub(super) async fn note_failure(&self, error: &GuestError) {
        let text = format!("the desktop could not be started: {error}");
        self.note(&mut *self.programs.lock().await, text);
    }

    /// Stops the desktop; the next use starts another.
    pub(super) async fn stop(&self) {
        let mut programs = self.programs.lock().await;
        if let Some(server) = &programs.server {
            server.end(Ending::after(EndReason::Cancelled, milliseconds(TERMINATION_GRACE)));
        }
        programs.end_companions();
        self.workers.dismiss();
    }

    /// Sends a note to the host, up to a bound: a job can kill and start its desktop as often as it likes.
    fn note(&self, programs: &mut DesktopPrograms, text: String) {
        programs.notes += 1;
        if programs.notes <= MAX_NOTES {
            let _ = self.events.note(text);
        }
    }

    /// Takes up the programs of the earlier keeper.
    fn look_for_survivors(&self, programs: &mut DesktopPrograms) {
        if std::mem::replace(&mut programs.looked, true) {
            return;
        }
        let Ok(Some(document)) = self.core.spool.load::<DesktopDocument>(DOCUMENT) else { return };
        programs.companions =
            document.companions.iter().filter_map(|id| self.processes.find_running(id)).collect();
        programs.server = self.processes.find_running(&document.server);
    }

    /// Reports that the desktop is up, and down once this server ends. The end of a server that was replaced reports nothing.
    fn announce(self: &Arc<Self>, programs: &mut DesktopPrograms) {
        let Some(server) = programs.server.clone() else { return };
        self.up.send_replace(true);
        if programs.watched.replace(server.id().clone()).is_some_and(|watched| watched == *server.id()) {
            return;
        }
        let owner = self.clone();
        self.core.tasks.spawn(async move {
            server.ended().await;
            let programs = owner.programs.lock().await;
            // Another server may have been started while this task waited for the lock.
            if programs.watched.as_ref() == Some(server.id()) {
                owner.workers.dismiss();
                owner.up.send_replace(false);
            }
        });
    }

    async fn start(
        self: &Arc<Self>,
        programs: &mut DesktopPrograms,
        places: &DesktopPlaces,
    ) -> Result<(), GuestError> {
        let unusable = |error: io::Error| internal(format!("make the display's sockets: {error}"));
        display::remove(&places.socket_directory.join(SOCKET)).map_err(unusable)?;
        let socket = DisplaySocket::for_server(places).map_err(unusable)?;
        let listener = socket.duplicate().map_err(unusable)?;
        let command = programs::server(places, self.geometry());
        let server = self.processes.start_with_input(command, listener).await?;
        programs.server = Some(server.clone());
        wait_until_ready(&server, places.start_deadline).await?;
        programs.companions.push(self.processes.start(programs::bus()).await?);
        let manager = self.processes.start(programs::window_manager()).await?;
        programs.companions.push(manager.clone());
        // Programs do without a window manager that fails, so a start does not wait for it as long as for the server.
        let _ = tokio::time::timeout(places.start_deadline / 3, says_something(&manager)).await;
        // Only now can programs reach the display: windows that open before the manager is ready are lost to it.
        socket.publish(places).map_err(unusable)?;
        if let Some(bell) = programs.bell.replace(Arc::new(socket)) {
            let display = display::socket_path(places, DISPLAY_NUMBER);
            self.core.tasks.spawn(carry_to_server(self.core.clone(), bell, display, server.clone()));
        }
        let names = programs.companions.iter().map(|process| process.id().clone()).collect();
        let document = DesktopDocument { server: server.id().clone(), companions: names };
        self.core.spool.store(DOCUMENT, &document).map_err(|error| internal(error.to_string()))
    }

    fn geometry(&self) -> (u32, u32) {
        let wanted =
            self.job_variable(programs::GEOMETRY_VARIABLE).and_then(|text| programs::parse_geometry(&text));
        wanted.unwrap_or(programs::DEFAULT_GEOMETRY)
    }
}

/// Returns when a program has written to its standard output, or has ended.
async fn says_something(program: &ManagedProcess) -> Option<Exit> {
    let mut progress = program.output(OutputStream::Stdout).progress();
    let said = async { progress.wait_for(|progress| progress.end > 0).await.is_ok() };
    // Output and exit are watches, so a cancelled branch loses nothing. If the capture is gone, `said` is false and only the exit
    // counts.
    tokio::select! {
        true = said => None,
        exit = program.ended() => Some(exit),
    }
}

async fn wait_until_ready(server: &ManagedProcess, within: Duration) -> Result<(), GuestError> {
    match tokio::time::timeout(within, says_something(server)).await {
        Ok(None) => Ok(()),
        Ok(Some(exit)) => {
            let missing = if exit.code == 127 { "; sessions with a desktop need the full image" } else { "" };
            let message = format!("the X server ended at once (exit code {}){missing}", exit.code);
            Err(GuestError::new(GuestErrorCode::SpawnFailed, message))
        }
        Err(_) => {
            server.end(Ending::after(EndReason::Timeout, 0));
            Err(GuestError::new(GuestErrorCode::SpawnFailed, "the X server did not become ready"))
        }
    }
}
