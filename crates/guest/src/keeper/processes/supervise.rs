//! Follows one process to its end: moves its output, holds its time limits, ends it when asked, and takes what it still
//! had to say.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sandyard_protocol::{EndReason, Exit};
use tokio::sync::watch;

use super::process::{Ending, Process};
use crate::keeper::Keeper;
use crate::keeper::capture::Capture;
use crate::keeper::clock::{boot_ms, milliseconds, sleep_until};
use crate::keeper::desktop;
use crate::keeper::exits::ended;
use crate::keeper::limits::{KILL_AGAIN, TERMINATION_GRACE};
use crate::keeper::pump::{Pumped, Source};
use crate::process_host::{ProcessHost, RawExit};

const SIGHUP: i32 = 1;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

/// How long a process may go on.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::keeper) struct Limits {
    /// When its time is up, in time since boot.
    pub(in crate::keeper) deadline_ms: Option<u64>,
    /// How long it may be silent.
    pub(in crate::keeper) idle_timeout_ms: Option<u64>,
    /// Silence before this time since boot does not count.
    pub(in crate::keeper) idle_from_ms: u64,
}

impl Limits {
    /// Limits that nobody changes.
    pub(in crate::keeper) fn fixed(self) -> watch::Receiver<Self> {
        watch::channel(self).1
    }
}

/// What goes down with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::keeper) enum Scope {
    /// Its process group, when it must be killed.
    Group,
    /// Everything in the machine, when it must be killed; and when it ends by itself, unless that is to be kept.
    Machine {
        /// Whether the background goes on after the end.
        keep: bool,
    },
}

/// A process with all that is needed to follow it.
pub(in crate::keeper) struct Supervision {
    pub(in crate::keeper) process: Arc<Process>,
    pub(in crate::keeper) sources: Vec<(Source, Arc<Capture>)>,
    pub(in crate::keeper) raw_exit: watch::Receiver<Option<RawExit>>,
    pub(in crate::keeper) limits: watch::Receiver<Limits>,
    pub(in crate::keeper) scope: Scope,
    /// Takes a last picture of the desktop before the machine's processes are ended.
    pub(in crate::keeper) witness: Option<Arc<Keeper>>,
}

impl Supervision {
    /// Returns when the process ended and all its output is captured, with the sources that others still hold.
    pub(in crate::keeper) async fn run(mut self, host: &dyn ProcessHost) -> (Exit, Vec<Source>) {
        let (over, over_receiver) = watch::channel(false);
        let sources = std::mem::take(&mut self.sources);
        let pumps =
            join_all(sources.iter().map(|(source, capture)| source.pump(capture, over_receiver.clone())));
        tokio::pin!(pumps);
        let mut pumped = None;
        let mut raw_exit = self.raw_exit.clone();
        let wait = self.wait_for_end(host, &mut raw_exit);
        tokio::pin!(wait);
        let exit = loop {
            tokio::select! {
                exit = &mut wait => break exit,
                done = &mut pumps, if pumped.is_none() => pumped = Some(done),
            }
        };
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
            let kill_ms =
                wish.map(|wish| next_kill_ms.map_or(wish.kill_at_ms, |next| next.max(wish.kill_at_ms)));
            tokio::select! {
                raw = ended(raw_exit) => return self.left(host, raw, wish).await,
                _ = wishes.changed() => next_kill_ms = None,
                () = changed(&mut limits) => {}
                () = sleep_until(limit.deadline_ms), if wish.is_none() => self.end_by_limit(EndReason::Timeout),
                () = self.silence(limit), if wish.is_none() => self.end_by_limit(EndReason::IdleTimeout),
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
    async fn silence(&self, limits: Limits) {
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

    /// An interactive shell ignores SIGTERM but not the loss of its terminal; a stopped one must go on to leave. Failures
    /// mean that the spawner is gone, and the machine with it.
    async fn ask_to_leave(&self, host: &dyn ProcessHost) {
        self.look_once_more().await;
        let signal = if self.process.has_terminal() { SIGHUP } else { SIGTERM };
        let _ = host.signal(&self.process.id, signal).await;
        let _ = host.signal(&self.process.id, SIGCONT).await;
    }

    async fn look_once_more(&self) {
        if let Some(keeper) = &self.witness {
            desktop::last_look(keeper).await;
        }
    }

    async fn kill(&self, host: &dyn ProcessHost) {
        let _ = match self.scope {
            Scope::Group => host.signal(&self.process.id, SIGKILL).await,
            Scope::Machine { .. } => host.kill_everything().await,
        };
    }

    async fn left(&self, host: &dyn ProcessHost, raw: RawExit, wish: Option<Ending>) -> Exit {
        if self.scope == (Scope::Machine { keep: false }) {
            if wish.is_none() {
                self.look_once_more().await;
            }
            let _ = host.kill_everything().await;
        }
        Exit { code: raw.code, signal: raw.signal, reason: wish.map_or(EndReason::Own, |wish| wish.reason) }
    }
}

/// Returns when limits are others; never, if nobody changes them.
async fn changed(limits: &mut watch::Receiver<Limits>) {
    if limits.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
