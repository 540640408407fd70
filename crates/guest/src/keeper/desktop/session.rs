//! The programs of a desktop: started together through the process service, as the job's own user; found again by the keeper
//! after; started anew when they died.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{EndReason, Exit, GuestError, GuestErrorCode, OutputStream, ProcessId, StartProcess};
use serde::{Deserialize, Serialize};

use super::display::{self, DisplaySocket, MANAGED_NUMBER};
use super::{DISPLAY_NUMBER, DesktopPlaces, doorbell, internal};
use crate::keeper::Keeper;
use crate::keeper::clock::milliseconds;
use crate::keeper::processes::{self, Ending, Process};
use crate::limits::TERMINATION_GRACE;

const DOCUMENT: &str = "desktop.json";
/// The socket of the X server's VNC.
pub(super) const SOCKET: &str = "rfb";
/// The X server is ready in 50 ms; on a machine that is busy with twenty of them it takes seconds.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// Notes about the desktop in a keeper's life.
const MOST_NOTES: usize = 20;
/// The variable of a job that sets the screen's size.
const GEOMETRY: &str = "SANDYARD_DESKTOP_GEOMETRY";
const DEFAULT_GEOMETRY: (u32, u32) = (1280, 800);
/// Sides of a screen; a screenshot of the largest stays within its bound.
const SIDES: std::ops::RangeInclusive<u32> = 320..=4096;

/// A window manager that is not ready by then is not waited for.
const MANAGER_DEADLINE: Duration = Duration::from_secs(10);

/// Removes what a killed server left, then becomes it. It listens on the socket that it finds at its standard input, and says
/// the number of the display on standard output when it is ready.
const SERVER: &str =
    r#"rm -f "/tmp/.X$0-lock"; export LISTEN_FDS=1 LISTEN_PID=$$; exec Xvnc ":$0" "$@" 3<&0 </dev/null"#;
/// Says so on standard output when it is ready, and nothing else there: windows that ask for it earlier are lost to it.
const WINDOW_MANAGER: &str = r#"xsetroot -cursor_name left_ptr -solid '#3b4252'; exec 3>&1 1>&2; exec openbox --startup "sh -c 'echo ready >/proc/$$/fd/3'""#;
const BUS: &str = r#"bus="$XDG_RUNTIME_DIR/bus"; rm -f "$bus"; exec dbus-daemon --session --nofork --nopidfile --nosyslog --address="unix:path=$bus""#;

/// The programs, if they run.
#[derive(Debug, Default)]
pub(super) struct Session {
    server: Option<Arc<Process>>,
    companions: Vec<Arc<Process>>,
    /// The socket that has the display's name.
    bell: Option<Arc<DisplaySocket>>,
    /// Whose end is waited for.
    watched: Option<ProcessId>,
    looked: bool,
    notes: usize,
}

/// Their names, for the next keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Document {
    server: ProcessId,
    companions: Vec<ProcessId>,
}

impl Session {
    fn is_up(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.exit().is_none())
    }

    /// Tells the host, up to a bound: a job can kill and start its desktop as often as it likes.
    fn note(&mut self, keeper: &Keeper, text: String) {
        self.notes += 1;
        if self.notes <= MOST_NOTES {
            let _ = keeper.events.note(text);
        }
    }

    /// Takes up what the keeper before had started.
    fn look_for_survivors(&mut self, keeper: &Keeper) {
        if std::mem::replace(&mut self.looked, true) {
            return;
        }
        let Ok(Some(document)) = keeper.spool.load::<Document>(DOCUMENT) else { return };
        let running = |id: &ProcessId| keeper.processes.find(id).filter(|process| process.exit().is_none());
        self.companions = document.companions.iter().filter_map(running).collect();
        self.server = [&document.server].into_iter().find_map(running);
    }
}

/// The socket that has the display's name while the desktop is down; made if need be.
pub(super) async fn bell(keeper: &Keeper) -> Option<Arc<DisplaySocket>> {
    let places = keeper.config.desktop.as_ref()?;
    let mut session = keeper.desktop.session.lock().await;
    if session.is_up() {
        return None;
    }
    if session.bell.is_none() {
        session.bell = DisplaySocket::of_a_bell(places).ok().map(Arc::new);
    }
    session.bell.clone()
}

/// Where programs find the display.
pub(super) fn display_path(keeper: &Keeper) -> Option<PathBuf> {
    keeper.config.desktop.as_ref().map(|places| display::socket_path(places, DISPLAY_NUMBER))
}

/// Whether the desktop runs now.
pub(super) async fn is_up(keeper: &Keeper) -> bool {
    let mut session = keeper.desktop.session.lock().await;
    session.look_for_survivors(keeper);
    session.is_up()
}

/// Sees to it that the desktop runs.
pub(super) async fn ensure(keeper: &Arc<Keeper>) -> Result<DesktopPlaces, GuestError> {
    let Some(places) = keeper.config.desktop.clone() else {
        return Err(GuestError::new(GuestErrorCode::NotFound, "this machine has no desktop"));
    };
    keeper.desktop.used.now();
    let mut session = keeper.desktop.session.lock().await;
    session.look_for_survivors(keeper);
    if session.is_up() {
        announce(keeper, &mut session);
        return Ok(places);
    }
    if let Some(exit) = session.server.take().and_then(|server| server.exit())
        && exit.reason == EndReason::Own
    {
        session.note(keeper, format!("the desktop had died (exit code {}) and is started again", exit.code));
    }
    end_all(&mut session);
    keeper.desktop.workers.dismiss();
    start(keeper, &mut session, &places).await?;
    announce(keeper, &mut session);
    Ok(places)
}

/// Tells the host that the desktop could not be started by a program that needs it.
pub(super) async fn note_failure(keeper: &Keeper, error: &GuestError) {
    let text = format!("the desktop could not be started: {error}");
    keeper.desktop.session.lock().await.note(keeper, text);
}

/// Stops the desktop; the next use starts another.
pub(super) async fn stop(keeper: &Keeper) {
    let mut session = keeper.desktop.session.lock().await;
    if let Some(server) = &session.server {
        server.end(Ending::after(EndReason::Cancelled, milliseconds(TERMINATION_GRACE)));
    }
    end_all(&mut session);
    keeper.desktop.workers.dismiss();
}

fn end_all(session: &mut Session) {
    for companion in session.companions.drain(..) {
        companion.end(Ending::after(EndReason::Cancelled, milliseconds(TERMINATION_GRACE)));
    }
}

/// Tells that the desktop is up, and when this server ends, that it is down. The end of one that was replaced says nothing.
fn announce(keeper: &Arc<Keeper>, session: &mut Session) {
    let Some(server) = session.server.clone() else { return };
    keeper.desktop.up.send_replace(true);
    if session.watched.replace(server.id().clone()).is_some_and(|watched| watched == *server.id()) {
        return;
    }
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        server.ended().await;
        let session = owner.desktop.session.lock().await;
        if session.watched.as_ref() == Some(server.id()) {
            owner.desktop.workers.dismiss();
            owner.desktop.up.send_replace(false);
        }
    });
}

async fn start(
    keeper: &Arc<Keeper>,
    session: &mut Session,
    places: &DesktopPlaces,
) -> Result<(), GuestError> {
    let unusable = |error: io::Error| internal(format!("make the display's sockets: {error}"));
    display::remove(&places.socket_directory.join(SOCKET)).map_err(unusable)?;
    let socket = DisplaySocket::of_a_server(places).map_err(unusable)?;
    let listener = socket.duplicate().map_err(unusable)?;
    let command = server_command(places, geometry(keeper));
    let server = processes::start_with_input(keeper, command, listener).await?;
    session.server = Some(server.clone());
    wait_until_ready(&server).await?;
    session.companions.push(processes::start(keeper, shell(BUS)).await?);
    let manager = processes::start(keeper, on_managed_display(shell(WINDOW_MANAGER))).await?;
    session.companions.push(manager.clone());
    // Programs do without one that fails.
    let _ = tokio::time::timeout(MANAGER_DEADLINE, says_something(&manager)).await;
    socket.publish(places).map_err(unusable)?;
    if let Some(bell) = session.bell.replace(Arc::new(socket)) {
        keeper.tasks.spawn(doorbell::carry(keeper.clone(), bell, server.clone()));
    }
    let names = session.companions.iter().map(|process| process.id().clone()).collect();
    let document = Document { server: server.id().clone(), companions: names };
    keeper.spool.store(DOCUMENT, &document).map_err(|error| internal(error.to_string()))
}

/// Returns when a program has written to its standard output, or has ended.
async fn says_something(program: &Process) -> Option<Exit> {
    let mut progress = program.output(OutputStream::Stdout).progress();
    let said = async { progress.wait_for(|progress| progress.end > 0).await.is_ok() };
    tokio::select! {
        true = said => None,
        exit = program.ended() => Some(exit),
    }
}

async fn wait_until_ready(server: &Process) -> Result<(), GuestError> {
    match tokio::time::timeout(START_DEADLINE, says_something(server)).await {
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

/// For a program that is there before the display has its name.
fn on_managed_display(mut command: StartProcess) -> StartProcess {
    command.env.insert("DISPLAY".into(), format!(":{MANAGED_NUMBER}"));
    command
}

fn server_command(places: &DesktopPlaces, (width, height): (u32, u32)) -> StartProcess {
    let number = DISPLAY_NUMBER.to_string();
    let geometry = format!("{width}x{height}");
    let socket = places.socket_directory.join(SOCKET).to_string_lossy().into_owned();
    // On no network, TCP or otherwise: only on the socket, which keeper can open by its mode, and there without a password.
    // The screen's size is the job's, and a client never sends another away.
    let options = [
        "-geometry",
        &geometry,
        "-depth",
        "24",
        "-desktop",
        "Sandyard",
        "-rfbport",
        "-1",
        "-rfbunixpath",
        &socket,
        "-rfbunixmode",
        "0666",
        "-SecurityTypes",
        "None",
        "-nolisten",
        "tcp",
        "-nolisten",
        "local",
        "-displayfd",
        "1",
        "-AlwaysShared=1",
        "-AcceptSetDesktopSize=0",
        "-noreset",
    ];
    let mut command = shell(SERVER);
    command.argv.push(number);
    command.argv.extend(options.map(str::to_owned));
    command
}

fn shell(script: &str) -> StartProcess {
    StartProcess { argv: vec!["sh".into(), "-c".into(), script.into()], ..StartProcess::default() }
}

fn geometry(keeper: &Keeper) -> (u32, u32) {
    let wanted = keeper.job.environment().get(GEOMETRY).and_then(|text| parse_geometry(text));
    wanted.unwrap_or(DEFAULT_GEOMETRY)
}

fn parse_geometry(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    let side = |text: &str| text.parse().ok().filter(|side| SIDES.contains(side));
    Some((side(width)?, side(height)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_two_sides_within_bounds() {
        assert_eq!(parse_geometry("1920x1080"), Some((1920, 1080)));
        for text in ["", "x", "1920", "1920x", "100x100", "9999x9999", "-1x800", "1280x800x24"] {
            assert_eq!(parse_geometry(text), None, "{text}");
        }
    }
}
