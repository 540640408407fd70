//! The desktop: an X server that speaks VNC on a socket, a window manager, and workers that act on it. Nothing runs before first use.
//!
//! `session` starts and stops the `programs`. A request of the host starts them, or the first connection to the display's socket
//! (`doorbell`, `display`). `gui` serves lists of actions through a `pool` of workers, which run `automation` as the job's own
//! user; `viewers` carries VNC, `page` serves a page inside the machine, `control` is the lock that says whether a person or the
//! agent acts, `recording` sends the host pictures as they change, `idle` stops an unused desktop. The job controls the programs behind the display and its socket, so keeper trusts
//! none of their answers.

mod answer;
pub mod automation;
mod control;
mod display;
mod doorbell;
mod gui;
mod idle;
mod last_picture;
mod page;
mod pool;
mod programs;
mod recording;
mod session;
mod usage;
mod viewers;

use std::path::PathBuf;
use std::sync::Arc;

use sandyard_protocol::{Reply, Request};

pub use automation::job::ROLE as GUI_JOB_ROLE;
pub use display::DesktopPlaces;
pub(super) use last_picture::LastPicture;

use super::core::KeeperCore;
use super::events::EventLog;
use super::job::state::MachineJob;
use super::processes::Processes;
use super::stream::{HostStream, reply};
use super::workers::WorkerStarter;
use answer::internal;
use control::ControlLock;
use gui::GuiActions;
use pool::DesktopWorkers;
use session::DesktopSession;
use viewers::Viewers;

/// File in keeper's directory of scripts that shows a job of kind `gui` who has control.
const CONTROL_NOTICE: &str = "control";

/// Serves the requests about the desktop: viewers, lists of actions and the last picture.
pub(super) struct DesktopService {
    core: Arc<KeeperCore>,
    session: Arc<DesktopSession>,
    gui: GuiActions,
    viewers: Arc<Viewers>,
    picture: Arc<LastPicture>,
}

/// The services that the desktop is handed.
pub(super) struct DesktopParts {
    pub(super) processes: Arc<Processes>,
    pub(super) events: Arc<EventLog>,
    pub(super) job: Arc<MachineJob>,
    pub(super) starter: WorkerStarter,
    /// Keeper's directory of scripts.
    pub(super) scripts: PathBuf,
    pub(super) places: Option<DesktopPlaces>,
}

impl DesktopService {
    pub(super) fn new(core: Arc<KeeperCore>, parts: DesktopParts) -> Self {
        let DesktopParts { processes, events, job, starter, scripts, places } = parts;
        let control = ControlLock::new(scripts.join(CONTROL_NOTICE));
        let workers = DesktopWorkers::new(starter, processes.clone());
        let session = Arc::new(DesktopSession::new(core.clone(), processes, events, workers, places));
        Self {
            gui: GuiActions::new(session.clone(), control.clone()),
            viewers: Arc::new(Viewers::new(session.clone(), control)),
            picture: Arc::new(LastPicture::new(session.clone(), core.spool.clone(), job)),
            session,
            core,
        }
    }

    /// Takes the last picture before the machine's processes are ended.
    pub(super) fn last_picture(&self) -> Arc<LastPicture> {
        self.picture.clone()
    }

    /// Begins the tasks that wait for the desktop's first use.
    pub(super) fn begin(&self) {
        if let Some(places) = self.session.places().cloned() {
            self.core.tasks.spawn(doorbell::serve(self.session.clone()));
            self.core.tasks.spawn(page::serve(self.core.clone(), self.viewers.clone(), places));
            self.core.tasks.spawn(idle::watch(self.session.clone(), self.viewers.clone()));
        }
    }

    /// Serves a request that [`claims`] accepts.
    pub(super) async fn serve(&self, request: Request, mut stream: HostStream) {
        let refused = match request {
            Request::ConnectDesktop { mode } => self.viewers.serve(mode, stream).await,
            Request::Gui { actions, wait_ms } => self.gui.serve(&actions, wait_ms, stream).await,
            Request::LastScreenshot => self.picture.serve(stream).await,
            Request::RecordDesktop => recording::serve(&self.session, stream).await,
            _ => return reply(&mut stream, &Reply::Failed(internal("not about the desktop"))).await,
        };
        if let Err((error, mut stream)) = refused {
            reply(&mut stream, &Reply::Failed(error)).await;
        }
    }
}

/// True for a request about the desktop.
pub(super) fn claims(request: &Request) -> bool {
    matches!(
        request,
        Request::ConnectDesktop { .. }
            | Request::Gui { .. }
            | Request::LastScreenshot
            | Request::RecordDesktop
    )
}
