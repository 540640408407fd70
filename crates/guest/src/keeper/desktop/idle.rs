//! Stops a desktop that nobody uses: no viewer, no action, and no program but the window manager, for a while.

use std::sync::Arc;
use std::time::Duration;

use super::automation::worker::WorkerOrder;
use super::session::DesktopSession;
use super::viewers::Viewers;

/// The variable of a job that sets the rest before the stop, in seconds; 0 is never.
const REST_VARIABLE: &str = "SANDYARD_DESKTOP_IDLE_S";
const DEFAULT_REST: Duration = Duration::from_secs(600);
/// Bounds of the interval between two looks, which is a quarter of the rest.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
const COUNT_DEADLINE: Duration = Duration::from_secs(10);
/// Clients of a display without programs: the window manager, and the worker that asks.
const OWN_CLIENTS: u32 = 2;

/// Stops the desktop whenever it has rested for long enough.
pub(super) async fn watch(session: Arc<DesktopSession>, viewers: Arc<Viewers>) {
    let mut up = session.up();
    loop {
        if up.wait_for(|up| *up).await.is_err() {
            return;
        }
        let rest = rest(&session);
        let interval =
            rest.map_or(LONGEST_INTERVAL, |rest| (rest / 4).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL));
        tokio::time::sleep(interval).await;
        let Some(rest) = rest else { continue };
        if viewers.count() > 0 || session.last_use().elapsed() < rest {
            continue;
        }
        if is_empty(&session).await {
            session.stop().await;
            if up.wait_for(|up| !up).await.is_err() {
                return;
            }
        }
    }
}

/// True if no program but the desktop's own is connected to the display.
async fn is_empty(session: &DesktopSession) -> bool {
    // Idle workers are clients of the display too.
    session.workers().dismiss();
    let Ok(mut worker) = session.workers().take().await else { return false };
    let report = worker.obey(&WorkerOrder::Clients, COUNT_DEADLINE).await;
    report.is_ok_and(|report| report.clients.is_some_and(|clients| clients <= OWN_CLIENTS))
}

fn rest(session: &DesktopSession) -> Option<Duration> {
    let wanted = session.job_variable(REST_VARIABLE).and_then(|text| text.parse().ok());
    match wanted {
        Some(0) => None,
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None => Some(DEFAULT_REST),
    }
}
