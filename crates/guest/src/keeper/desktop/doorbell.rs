//! The display's socket while no X server runs: the first program that knocks starts one.
//!
//! Programs that knocked before the server was there are carried to it by keeper, and end with it; later ones find the server's own socket in the same
//! place. When the server ends the doorbell hangs there again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::net::{UnixListener, UnixStream};

use super::session::{self, display_socket};
use super::{DesktopPlaces, viewers};
use crate::keeper::Keeper;

/// After a failure, before the bell is hung again: a program that knocks in a loop must not cost more than this.
const PAUSE: Duration = Duration::from_secs(1);

/// Hangs the bell, again and again.
pub(super) async fn serve(keeper: Arc<Keeper>, places: DesktopPlaces) {
    let mut up = keeper.desktop.up.subscribe();
    if session::is_up(&keeper).await {
        // A server that outlived the keeper before.
        let _ = session::ensure(&keeper).await;
    }
    loop {
        if up.wait_for(|up| !up).await.is_err() {
            return;
        }
        let Some(bell) = hang(&places) else {
            // Somebody else's socket is there: the desktop still starts by the host's requests.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let knocked = tokio::select! {
            knocked = bell.accept() => knocked.ok().map(|(program, _)| program),
            started = up.wait_for(|up| *up) => match started {
                Ok(_) => None,
                Err(_) => return,
            },
        };
        if let Some(program) = knocked {
            answer(&keeper, &places, &bell, program).await;
        }
        carry_waiting(&keeper, &places, &bell);
    }
}

fn hang(places: &DesktopPlaces) -> Option<UnixListener> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = display_socket(places);
    session::remove(&path).ok()?;
    let bell = UnixListener::bind(&path).ok()?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).ok()?;
    Some(bell)
}

async fn answer(keeper: &Arc<Keeper>, places: &DesktopPlaces, bell: &UnixListener, program: UnixStream) {
    match session::ensure(keeper).await {
        Ok(_) => carry(keeper, places, program),
        Err(error) => {
            session::note_failure(keeper, &error).await;
            drop(program);
            // Those that wait behind it would start it again and again.
            while bell.accept().now_or_never().is_some() {}
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn carry_waiting(keeper: &Arc<Keeper>, places: &DesktopPlaces, bell: &UnixListener) {
    while let Some(Ok((program, _))) = bell.accept().now_or_never() {
        carry(keeper, places, program);
    }
}

/// Between a program that came early and the server, for as long as both live.
fn carry(keeper: &Arc<Keeper>, places: &DesktopPlaces, mut program: UnixStream) {
    let path = display_socket(places);
    keeper.tasks.spawn(async move {
        if let Ok(mut server) = viewers::connect(&path).await {
            let _ = tokio::io::copy_bidirectional(&mut program, &mut server).await;
        }
    });
}
