//! The desktop: an X server that speaks VNC on a socket, a window manager, and hands that act on it. Nothing runs before first use.
//!
//! `session` starts and stops the programs, by the first request of the host or the first knock on the display's socket
//! (`doorbell`, `display`). `gui` serves lists of actions through `workers`, which run `hands` as the job's own user; `viewers` carries
//! VNC, `page` serves a page of our own inside the machine, `control` is the lock that says whether a person acts or the agent.
//! Whatever answers on the display or its socket is the job's and is trusted with nothing.

pub(in crate::keeper) mod control;
mod display;
mod doorbell;
mod gui;
pub mod hands;
mod idle;
mod last_look;
mod page;
mod session;
mod viewers;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use sandyard_protocol::{GuestError, GuestErrorCode, Reply, Request};
use tokio::sync::Mutex;

pub(in crate::keeper) use last_look::last_look;

use super::Keeper;
use super::link::{HostStream, reply};
use super::workers::Burial;
use control::Control;
use session::Session;
use workers::DesktopWorkers;

/// The display that everything in the machine is told of, running or not.
pub const DISPLAY_NUMBER: u32 = 1;

/// Where the desktop's parts meet.
#[derive(Debug, Clone)]
pub struct DesktopPlaces {
    /// The directory of the display's socket, where every X program looks for it.
    pub display_directory: PathBuf,
    /// The directory of the socket on which the X server speaks VNC; keeper's, writable by the job.
    pub socket_directory: PathBuf,
    /// The port of the page inside the machine.
    pub port: u16,
}

impl Default for DesktopPlaces {
    fn default() -> Self {
        Self {
            display_directory: "/tmp/.X11-unix".into(),
            socket_directory: "/tmp/.sandyard".into(),
            port: 6080,
        }
    }
}

/// The desktop of this machine.
#[derive(Debug)]
pub(in crate::keeper) struct Desktop {
    session: Mutex<Session>,
    up: tokio::sync::watch::Sender<bool>,
    control: Control,
    workers: DesktopWorkers,
    /// One list of actions at a time.
    turn: Mutex<()>,
    viewers: AtomicUsize,
    used: idle::Used,
}

impl Desktop {
    /// Of the nth keeper of this machine.
    pub(in crate::keeper) fn new(keeper_number: u64, notice: PathBuf, dead: Burial) -> Self {
        Self {
            session: Mutex::default(),
            up: tokio::sync::watch::Sender::new(false),
            control: Control::new(notice),
            workers: DesktopWorkers::new(keeper_number, dead),
            turn: Mutex::default(),
            viewers: AtomicUsize::new(0),
            used: idle::Used::default(),
        }
    }
}

/// Begins what waits for the desktop's first use.
pub(in crate::keeper) fn begin(keeper: &Arc<Keeper>) {
    if let Some(places) = keeper.config.desktop.clone() {
        keeper.tasks.spawn(doorbell::serve(keeper.clone()));
        keeper.tasks.spawn(page::serve(keeper.clone(), places));
        keeper.tasks.spawn(idle::watch(keeper.clone()));
    }
}

/// Whether a request is about the desktop.
pub(in crate::keeper) fn claims(request: &Request) -> bool {
    matches!(request, Request::ConnectDesktop { .. } | Request::Gui { .. } | Request::LastScreenshot)
}

/// Serves one request.
pub(in crate::keeper) async fn serve(keeper: Arc<Keeper>, request: Request, mut stream: HostStream) {
    let refused = match request {
        Request::ConnectDesktop { mode } => viewers::serve(&keeper, mode, stream).await,
        Request::Gui { actions, wait_ms } => gui::serve(&keeper, &actions, wait_ms, stream).await,
        Request::LastScreenshot => last_look::serve(&keeper, stream).await,
        _ => return reply(&mut stream, &Reply::Failed(internal("not about the desktop"))).await,
    };
    if let Err((error, mut stream)) = refused {
        reply(&mut stream, &Reply::Failed(error)).await;
    }
}

/// Served, or refused before anything was answered.
type Served = Result<(), (GuestError, HostStream)>;

fn internal(message: impl Into<String>) -> GuestError {
    GuestError::new(GuestErrorCode::Internal, message)
}
