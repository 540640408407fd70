//! The programs of a desktop: started together through the process service, as the job's own user; found again by the keeper
//! after; started anew when they died.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{EndReason, GuestError, GuestErrorCode, OutputStream, ProcessId, StartProcess};
use serde::{Deserialize, Serialize};

use super::{DISPLAY_NUMBER, DesktopPlaces, internal};
use crate::keeper::Keeper;
use crate::keeper::clock::milliseconds;
use crate::keeper::limits::TERMINATION_GRACE;
use crate::keeper::processes::{self, Ending, Process};

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

/// Removes what a killed server left, then becomes it. The server itself takes the place of the socket that is there. The number of the display comes on standard output when it is ready.
const SERVER: &str = r#"rm -f "/tmp/.X$0-lock"; exec Xvnc ":$0" "$@""#;
const WINDOW_MANAGER: &str = "xsetroot -cursor_name left_ptr -solid '#3b4252'; exec openbox";
const BUS: &str = r#"bus="$XDG_RUNTIME_DIR/bus"; rm -f "$bus"; exec dbus-daemon --session --nofork --nopidfile --nosyslog --address="unix:path=$bus""#;

/// The programs, if they run.
#[derive(Debug, Default)]
pub(super) struct Session {
    server: Option<Arc<Process>>,
    companions: Vec<Arc<Process>>,
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
        announce(keeper, &session);
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
    announce(keeper, &session);
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

/// Tells the doorbell, now and when the server ends.
fn announce(keeper: &Arc<Keeper>, session: &Session) {
    let Some(server) = session.server.clone() else { return };
    if keeper.desktop.up.send_replace(true) {
        return;
    }
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        server.ended().await;
        owner.desktop.workers.dismiss();
        owner.desktop.up.send_replace(false);
    });
}

async fn start(
    keeper: &Arc<Keeper>,
    session: &mut Session,
    places: &DesktopPlaces,
) -> Result<(), GuestError> {
    remove(&places.socket_directory.join(SOCKET))
        .map_err(|error| internal(format!("remove the socket of the last desktop: {error}")))?;
    let geometry = geometry(keeper);
    let server = processes::start(keeper, server_command(places, geometry)).await?;
    session.server = Some(server.clone());
    wait_until_ready(&server).await?;
    for script in [WINDOW_MANAGER, BUS] {
        session.companions.push(processes::start(keeper, shell(script)).await?);
    }
    let names = session.companions.iter().map(|process| process.id().clone()).collect();
    let document = Document { server: server.id().clone(), companions: names };
    keeper.spool.store(DOCUMENT, &document).map_err(|error| internal(error.to_string()))
}

/// Removes a socket; what can't be removed is left to the server, which says so if it stands in its way.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error)
            if !matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// The display's own socket.
pub(super) fn display_socket(places: &DesktopPlaces) -> std::path::PathBuf {
    places.display_directory.join(format!("X{DISPLAY_NUMBER}"))
}

async fn wait_until_ready(server: &Process) -> Result<(), GuestError> {
    let output = server.output(OutputStream::Stdout).clone();
    let mut progress = output.progress();
    let ready = async {
        // The number and its newline, written at once.
        while progress.borrow_and_update().end < 2 {
            if progress.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = ready => Ok(()),
        exit = server.ended() => {
            let missing = if exit.code == 127 { "; sessions with a desktop need the full image" } else { "" };
            let message = format!("the X server ended at once (exit code {}){missing}", exit.code);
            Err(GuestError::new(GuestErrorCode::SpawnFailed, message))
        }
        () = tokio::time::sleep(START_DEADLINE) => {
            server.end(Ending::after(EndReason::Timeout, 0));
            Err(GuestError::new(GuestErrorCode::SpawnFailed, "the X server did not become ready"))
        }
    }
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
