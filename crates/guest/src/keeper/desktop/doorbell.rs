//! Starts the desktop for the first program that connects to the display. Programs that connected before the X server was ready are
//! carried to it by keeper, and end with it; later ones find the server's own socket under the same name.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::display::DisplaySocket;
use super::session::DesktopSession;

/// Delay after a failed start: a program that connects in a loop must not cost more than this.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Starts the desktop for programs that connect while it is down.
pub(super) async fn serve(session: Arc<DesktopSession>) {
    let mut up = session.up();
    if session.is_up().await {
        // A server that outlived the earlier keeper: from now on its end is noticed.
        let _ = session.ensure().await;
    }
    loop {
        if up.wait_for(|up| !up).await.is_err() {
            return;
        }
        let Some(bell) = session.bell().await else {
            // Up again, or the socket can't be made: requests of the host still start the desktop.
            tokio::time::sleep(RETRY_DELAY).await;
            continue;
        };
        // A program that connects, or a request of the host that starts the desktop first. Cancelling loses nothing: `called` leaves the
        // connection in the queue, and `up` is a watch.
        let called = tokio::select! {
            called = bell.called() => called.is_ok(),
            started = up.wait_for(|up| *up) => match started {
                Ok(_) => false,
                Err(_) => return,
            },
        };
        if called && let Err(error) = session.ensure().await {
            session.note_failure(&error).await;
            turn_away(&bell);
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// Closes waiting connections, which would otherwise start the failing server again and again.
fn turn_away(bell: &DisplaySocket) {
    while let Some(Ok(_)) = bell.accept().now_or_never() {}
}
