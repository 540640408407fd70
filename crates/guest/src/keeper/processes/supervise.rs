//! Follows one process to its end: moves its output, enforces its time limits, ends it on request, and takes its last output.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use sandyard_protocol::{EndReason, Exit};
use tokio::sync::watch;

use super::process::{Ending, ManagedProcess};
use crate::keeper::clock::{boot_ms, milliseconds, sleep_until};
use crate::keeper::exits::ended;
use crate::keeper::host_link::HostLink;
use crate::keeper::output::capture::Capture;
use crate::keeper::output::pump::{OutputSource, Pumped};
use crate::limits::{KILL_AGAIN, TERMINATION_GRACE};
use crate::process_host::{ProcessHost, RawExit};

const SIGHUP: i32 = 1;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

/// The time limits of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::keeper) struct ProcessLimits {
    /// Deadline in milliseconds since boot.
    pub(in crate::keeper) deadline_ms: Option<u64>,
    /// Longest time without output.
    pub(in crate::keeper) idle_timeout_ms: Option<u64>,
    /// Silence before this time since boot does not count.
    pub(in crate::keeper) idle_from_ms: u64,
}

impl ProcessLimits {
    /// Limits that never change.
    pub(in crate::keeper) fn fixed(self) -> watch::Receiver<Self> {
        watch::channel(self).1
    }
}

/// The processes that are killed with a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::keeper) enum KillScope {
    /// Its process group, when it must be killed.
    Group,
    /// Every process of the machine: when this one must be killed, and when it ends by itself, unless `keep`.
    Machine {
        /// True if background processes go on after the end.
        keep: bool,
    },
}

/// Called before the job's processes are asked to leave or killed, while they still run. The desktop takes its last picture then.
#[async_trait]
pub(in crate::keeper) trait EndObserver: Send + Sync {
    /// Bounded in time: the end of the job waits for it.
    async fn before_end(&self);
}

/// A process and everything that is needed to follow it.
pub(in crate::keeper) struct Supervision {
    pub(in crate::keeper) process: Arc<ManagedProcess>,
    pub(in crate::keeper) sources: Vec<(OutputSource, Arc<Capture>)>,
    pub(in crate::keeper) raw_exit: watch::Receiver<Option<RawExit>>,
    pub(in crate::keeper) limits: watch::Receiver<ProcessLimits>,
    pub(in crate::keeper) scope: KillScope,
    /// Called before the machine's processes are ended.
    pub(in crate::keeper) observer: Option<Arc<dyn EndObserver>>,
    /// Ends a process that nobody follows any more; `None` if it runs alone.
    pub(in crate::keeper) linger: Option<LingerLimit>,
}

/// How long a process runs without a stream that follows it.
#[derive(Debug, Clone)]
pub(in crate::keeper) struct LingerLimit {
    /// Time without a stream, while a server could open one.
    pub(in crate::keeper) linger_ms: u64,
    /// Without a link no caller can come back, so the time does not count.
    pub(in crate::keeper) link: Arc<HostLink>,
}

impl Supervision {
    /// Returns when the process has ended and all its output is captured. Also returns the sources that background processes still
    /// hold open.
    pub(in crate::keeper) async fn run(mut self, host: &dyn ProcessHost) -> (Exit, Vec<OutputSource>) {
        // `over` tells the pumps that no new output can come.
        let (over, over_receiver) = watch::channel(false);
        let sources = std::mem::take(&mut self.sources);
        let pumps =
            join_all(sources.iter().map(|(source, capture)| source.pump(capture, over_receiver.clone())));
        tokio::pin!(pumps);
        let mut pumped = None;
        let mut raw_exit = self.raw_exit.clone();
        let wait = self.wait_for_end(host, &mut raw_exit);
        tokio::pin!(wait);
        // The pumps run beside the wait: a process whose pipe is full would never end. Both futures are pinned outside the loop, so
        // neither is cancelled by the other's progress, and the guard keeps a finished pump from being polled again.
        let exit = loop {
            tokio::select! {
                exit = &mut wait => break exit,
                done = &mut pumps, if pumped.is_none() => pumped = Some(done),
            }
        };
        // Only now may the pumps stop at an empty pipe: everything the process wrote is in it.
        over.send_replace(true);
        let pumped = match pumped {
            Some(pumped) => pumped,
            None => pumps.await,
        };
        let held = sources.iter().zip(pumped).filter(|(_, pumped)| *pumped == Pumped::StillHeld);
        (exit, held.map(|((source, _), _)| source.clone()).collect())
    }

    async fn wait_for_end(
        &self,
        host: &dyn ProcessHost,
        raw_exit: &mut watch::Receiver<Option<RawExit>>,
    ) -> Exit {
        let mut wishes = self.process.ending.subscribe();
        let mut limits = self.limits.clone();
        let mut asked_to_leave = false;
        let mut next_kill_ms = None;
        loop {
            let wish = *wishes.borrow_and_update();
            let limit = *limits.borrow_and_update();
            if let (Some(wish), false) = (wish, asked_to_leave) {
                self.ask_to_leave(host).await;
                asked_to_leave = true;
                next_kill_ms = Some(wish.kill_at_ms);
            }
            // A later request may bring the kill forward; after a kill, `next_kill_ms` repeats it.
            let kill_ms =
                wish.map(|wish| next_kill_ms.map_or(wish.kill_at_ms, |next| next.max(wish.kill_at_ms)));
            // Limits count only until an end is requested: from then on the grace period decides. No branch is polled first; each is
            // rare, and the kill is repeated until the exit comes. Cancelling a branch loses nothing: watches remember their last value,
            // and the sleeps are computed anew from times that are fixed. Kills and signals run in the bodies, which are never cancelled.
            tokio::select! {
                raw = ended(raw_exit) => return self.left(host, raw, wish).await,
                _ = wishes.changed() => next_kill_ms = None,
                () = changed(&mut limits) => {}
                () = sleep_until(limit.deadline_ms), if wish.is_none() => self.end_by_limit(EndReason::Timeout),
                () = self.silence(limit), if wish.is_none() => self.end_by_limit(EndReason::IdleTimeout),
                () = self.abandoned(), if wish.is_none() => self.end_by_limit(EndReason::Cancelled),
                () = sleep_until(kill_ms), if wish.is_some() => {
                    self.kill(host).await;
                    next_kill_ms = Some(boot_ms() + milliseconds(KILL_AGAIN));
                }
            }
        }
    }

    fn end_by_limit(&self, reason: EndReason) {
        self.process.end(Ending::after(reason, milliseconds(TERMINATION_GRACE)));
    }

    /// Returns when no output came for too long.
    async fn silence(&self, limits: ProcessLimits) {
        let Some(limit) = limits.idle_timeout_ms.map(Duration::from_millis) else {
            return std::future::pending().await;
        };
        loop {
            let counted = Duration::from_millis(boot_ms().saturating_sub(limits.idle_from_ms));
            let quiet = self.process.quiet_for().min(counted);
            match limit.checked_sub(quiet) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }

    /// Returns when no stream followed the process for too long while a server was linked. The time begins anew with each link.
    async fn abandoned(&self) {
        let Some(LingerLimit { linger_ms, link }) = &self.linger else {
            return std::future::pending().await;
        };
        let (mut attached, mut link) = (self.process.attached(), link.watch());
        loop {
            let alone = *attached.borrow_and_update() == 0 && link.borrow_and_update().is_some();
            let until = alone.then(|| boot_ms().saturating_add(*linger_ms));
            // Cancelling loses nothing: both are watches, whose senders live as long as `self`.
            tokio::select! {
                () = sleep_until(until) => return,
                _ = attached.changed() => {}
                _ = link.changed() => {}
            }
        }
    }

    /// An interactive shell ignores SIGTERM but not the loss of its terminal. A stopped process must be continued before it can
    /// leave. Failures mean that the spawner is gone, and the machine with it.
    async fn ask_to_leave(&self, host: &dyn ProcessHost) {
        self.notify_observer().await;
        let signal = if self.process.has_terminal() { SIGHUP } else { SIGTERM };
        let _ = host.signal(&self.process.id, signal).await;
        let _ = host.signal(&self.process.id, SIGCONT).await;
    }

    async fn notify_observer(&self) {
        if let Some(observer) = &self.observer {
            observer.before_end().await;
        }
    }

    async fn kill(&self, host: &dyn ProcessHost) {
        let _ = match self.scope {
            KillScope::Group => host.signal(&self.process.id, SIGKILL).await,
            KillScope::Machine { .. } => host.kill_everything().await,
        };
    }

    async fn left(&self, host: &dyn ProcessHost, raw: RawExit, wish: Option<Ending>) -> Exit {
        if self.scope == (KillScope::Machine { keep: false }) {
            // With a wish, `ask_to_leave` has done it already.
            if wish.is_none() {
                self.notify_observer().await;
            }
            let _ = host.kill_everything().await;
        }
        Exit { code: raw.code, signal: raw.signal, reason: wish.map_or(EndReason::Own, |wish| wish.reason) }
    }
}

/// Returns when the limits change; never, if nobody can change them.
async fn changed(limits: &mut watch::Receiver<ProcessLimits>) {
    if limits.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
