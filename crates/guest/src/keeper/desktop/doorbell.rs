//! The first program that looks for the display starts it. Those that called before it was ready are carried to it by keeper, and
//! end with it; later ones find the server's own socket under the same name.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::net::UnixStream;

use super::display::DisplaySocket;
use super::session;
use crate::keeper::Keeper;
use crate::keeper::processes::Process;

/// After a failure: a program that calls in a loop must not cost more than this.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the desktop for whoever calls while it is down.
pub(super) async fn serve(keeper: Arc<Keeper>) {
    let mut up = keeper.desktop.up.subscribe();
    if session::is_up(&keeper).await {
        // A server that outlived the keeper before.
        let _ = session::ensure(&keeper).await;
    }
    loop {
        if up.wait_for(|up| !up).await.is_err() {
            return;
        }
        let Some(bell) = session::bell(&keeper).await else {
            // Up again, or there is no place for a socket: the desktop still starts by the host's requests.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let called = tokio::select! {
            called = bell.called() => called.is_ok(),
            started = up.wait_for(|up| *up) => match started {
                Ok(_) => false,
                Err(_) => return,
            },
        };
        if called && let Err(error) = session::ensure(&keeper).await {
            session::note_failure(&keeper, &error).await;
            turn_away(&bell);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Those in the queue would start a server again and again that does not start.
fn turn_away(bell: &DisplaySocket) {
    while let Some(Ok(_)) = bell.accept().now_or_never() {}
}

/// Carries the callers of a socket that has lost its name to the one that has it now, for as long as the server lives.
pub(super) async fn carry(keeper: Arc<Keeper>, bell: Arc<DisplaySocket>, server: Arc<Process>) {
    let callers = async {
        while let Ok(caller) = bell.accept().await {
            keeper.tasks.spawn(pass_on(keeper.clone(), caller));
        }
    };
    tokio::select! {
        () = callers => {}
        _ = server.ended() => {}
    }
}

async fn pass_on(keeper: Arc<Keeper>, mut caller: UnixStream) {
    let Some(server) = session::display_path(&keeper) else { return };
    if let Ok(mut server) = UnixStream::connect(server).await {
        let _ = tokio::io::copy_bidirectional(&mut caller, &mut server).await;
    }
}
