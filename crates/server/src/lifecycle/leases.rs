//! Renews the leases of this server, apart from the work that they protect.
//!
//! The renewal has a thread and a runtime of its own. A server that adopts a thousand sandboxes, removes old jobs or waits for a
//! driver keeps its jobs meanwhile; only a store that does not answer can cost it a lease.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use sandyard_protocol::ErrorChain;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::job::JobId;
use crate::yard::YardContext;

/// The leases that one renewal found.
#[derive(Debug, Clone)]
pub(super) struct RenewedLeases {
    /// Taken before the store was asked: a job that the loop got later is not in `epochs`.
    pub(super) asked_at: Instant,
    /// Epochs of the jobs that this server still owns.
    pub(super) epochs: Arc<HashMap<JobId, u64>>,
}

/// The renewal of all leases. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct LeaseRenewal {
    renewed: watch::Receiver<Option<RenewedLeases>>,
    _stop: DropGuard,
}

impl LeaseRenewal {
    /// Starts the thread, which renews at once and then with every heartbeat.
    pub(super) fn start(context: &Arc<YardContext>) -> io::Result<Self> {
        let (sender, renewed) = watch::channel(None);
        let stop = CancellationToken::new();
        let (context, stopped) = (Arc::clone(context), stop.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new().name("leases".to_owned()).spawn(move || {
            // A renewal that is cut off may happen or not; both are harmless, and nobody waits for its answer.
            runtime.block_on(stopped.run_until_cancelled(renew_forever(&context, &sender)));
        })?;
        Ok(Self { renewed, _stop: stop.drop_guard() })
    }

    /// Waits for the next renewal. Loses nothing when cancelled: the latest one is kept until it is taken.
    pub(super) async fn next(&mut self) -> RenewedLeases {
        loop {
            if self.renewed.changed().await.is_err() {
                // The thread has ended, which only a panic can cause. The leases run out, as in a crash.
                std::future::pending::<()>().await;
            }
            if let Some(renewed) = self.renewed.borrow_and_update().clone() {
                return renewed;
            }
        }
    }
}

async fn renew_forever(context: &YardContext, renewed: &watch::Sender<Option<RenewedLeases>>) {
    let mut heartbeat = tokio::time::interval(context.config.lease.heartbeat);
    // `Delay`: after a suspend one tick is enough; a burst of them would only repeat the same work.
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        heartbeat.tick().await;
        let asked_at = Instant::now();
        match context.store.renew(&context.owner, context.ttl_ms()).await {
            Ok(kept) => {
                let epochs = kept.into_iter().map(|fence| (fence.job, fence.epoch)).collect();
                renewed.send_replace(Some(RenewedLeases { asked_at, epochs: Arc::new(epochs) }));
            }
            // Tasks go on: until the leases run out nobody else can take the jobs, and afterwards the store refuses their writes.
            Err(error) => tracing::warn!(error = %ErrorChain(&error), "the leases could not be renewed"),
        }
    }
}
