//! A desktop nobody uses gives its memory back: no viewer, no action, and no program but the window manager, for a while.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::hands::worker::Order;
use super::session;
use crate::keeper::Keeper;

/// The variable of a job that sets after how many seconds; 0 is never.
const REST: &str = "SANDYARD_DESKTOP_IDLE_S";
const DEFAULT_REST: Duration = Duration::from_secs(600);
/// How often it is looked for, at most and at least: a fraction of the rest, but not a burden.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
const PATIENCE: Duration = Duration::from_secs(10);
/// Connected to the display of a desktop without programs: the window manager, and the worker that asks.
const OWN_CLIENTS: u32 = 2;

/// When the desktop was last used.
#[derive(Debug)]
pub(super) struct Used(Mutex<Instant>);

impl Default for Used {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Used {
    /// It is used now.
    pub(super) fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn rested_for(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// Stops the desktop whenever it has rested for long enough.
pub(super) async fn watch(keeper: Arc<Keeper>) {
    let mut up = keeper.desktop.up.subscribe();
    loop {
        if up.wait_for(|up| *up).await.is_err() {
            return;
        }
        let rest = rest(&keeper);
        tokio::time::sleep(rest.map_or(LOOK_AGAIN.1, |rest| (rest / 4).clamp(LOOK_AGAIN.0, LOOK_AGAIN.1)))
            .await;
        let Some(rest) = rest else { continue };
        let desktop = &keeper.desktop;
        if desktop.viewers.load(Ordering::Relaxed) > 0 || desktop.used.rested_for() < rest {
            continue;
        }
        if is_empty(&keeper).await {
            session::stop(&keeper).await;
            if up.wait_for(|up| !up).await.is_err() {
                return;
            }
        }
    }
}

async fn is_empty(keeper: &Arc<Keeper>) -> bool {
    // Idle workers are clients as well.
    keeper.desktop.workers.dismiss();
    let Ok(mut worker) = keeper.desktop.workers.take(keeper).await else { return false };
    let report = worker.obey(&Order::Clients, PATIENCE).await;
    report.is_ok_and(|report| report.clients.is_some_and(|clients| clients <= OWN_CLIENTS))
}

fn rest(keeper: &Keeper) -> Option<Duration> {
    let wanted = keeper.job.environment().get(REST).and_then(|text| text.parse().ok());
    match wanted {
        Some(0) => None,
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None => Some(DEFAULT_REST),
    }
}
