//! Follows a job over one link: events and output in, commits out, acknowledgements back.
//!
//! Reading continues while a commit is under way, up to a bound. Output waits a moment for more, except the first after a pause.
//! Everything received is committed before the session returns, so a resume begins where the store ends.

mod clocks;
mod commits;
mod guest_clocks;
mod handshake;
mod pending_commit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_protocol::{EndReason, Exit, GuestEvent, SequencedEvent, limits};
use sandyard_sandbox::driver::DiskState;
use sandyard_sandbox::machine::{FromGuest, GuestEventStream, MachineError};
use tokio::sync::oneshot;

use super::deadlines::EndDeadline;
use super::egress_log::EgressLog;
use super::linking::SharedMachine;
use super::observing::JobObservers;
use super::outcome::JobOutcome;
use super::owner::JobOwner;
use super::task_gateways::TaskServices;
use crate::gateways::egress::EgressAttempt;
use crate::gateways::model::ModelReport;
use crate::job::{Change, FailureCode, JobRow, JobState, SandboxState, StoredEvent};
use crate::output::{OutputPace, OutputRecorder};
use crate::store::StoreError;

use guest_clocks::GuestClocks;
use pending_commit::{PendingCommit, next_commit};

/// Output is committed at least this often.
const FLUSH_DELAY: Duration = Duration::from_millis(20);
/// A change of state alone waits this long for the first output, so that a short job needs one commit.
const EVENT_FLUSH_DELAY: Duration = Duration::from_millis(4);
/// Output that is committed without delay.
const FLUSH_BYTES: usize = 256 * 1024;
/// Bytes of received output at which the guest has to wait. Bounds memory while the disk is slow.
const MAX_PENDING_BYTES: usize = 6 * 1024 * 1024;
/// Time for a guest to open its event stream, to begin its job or to set its clocks.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time between two looks whether the sandbox can still write to its disk.
const DISK_STATE_INTERVAL: Duration = Duration::from_secs(5);
/// Changes that wait for a commit, beyond which attempts to reach the network wait too.
const MAX_WAITING_CHANGES: usize = 256;

/// The end of a session.
pub(super) enum SessionEnd {
    /// The job's end is committed; the row is in `finishing`.
    Ended,
    /// The link is gone.
    Lost,
    /// A client asked for the deletion of the job.
    Deleted(Box<JobRow>),
    /// The guest can't or must not continue.
    Refused(JobOutcome),
    /// The sandbox can't write to its disk any more.
    DiskLost,
}

pub(super) struct JobSession<'a> {
    owner: &'a mut JobOwner,
    row: &'a mut JobRow,
    recorder: &'a mut OutputRecorder,
    backstop: &'a mut EndDeadline,
    /// Moves and notes that wait for the next commit.
    changes: Vec<Change>,
    /// Those who wait for the next commit, and those who wait for the one under way. Dropping them tells them.
    settled_next: Vec<oneshot::Sender<()>>,
    settling: Vec<oneshot::Sender<()>>,
    /// Last event of the guest that was received.
    sequence: u64,
    flush_at: Option<Instant>,
    last_flush: Option<Instant>,
    pending: Option<PendingCommit>,
    ended: Option<Exit>,
    end_asked: bool,
    /// The guest's clocks, as this link has set them.
    clocks: GuestClocks,
    /// The time limit by which the guest counts; `None` if it is not known to this link.
    timed_by_s: Option<u64>,
    /// The rate at which output is taken.
    pace: OutputPace,
    /// When to look at the sandbox's disk again.
    disk_look_at: Instant,
    /// True once the job was told that its output waits for room on the yard's disk.
    told_of_room: bool,
    /// Observers of the running job, over this link.
    observers: Option<JobObservers>,
}

impl<'a> JobSession<'a> {
    pub(super) fn new(
        owner: &'a mut JobOwner,
        row: &'a mut JobRow,
        recorder: &'a mut OutputRecorder,
        backstop: &'a mut EndDeadline,
    ) -> Self {
        let (sequence, now) = (row.guest_sequence, Instant::now());
        let io_bytes_per_s = row.limits.machine.io_mib_s.saturating_mul(1024 * 1024);
        let pace = owner.context.output_pace.of_job(io_bytes_per_s, now);
        Self {
            owner,
            row,
            recorder,
            backstop,
            changes: Vec::new(),
            settled_next: Vec::new(),
            settling: Vec::new(),
            sequence,
            flush_at: None,
            last_flush: None,
            pending: None,
            ended: None,
            end_asked: false,
            clocks: GuestClocks::Unset,
            timed_by_s: None,
            pace,
            disk_look_at: now + DISK_STATE_INTERVAL,
            told_of_room: false,
            observers: None,
        }
    }

    pub(super) async fn run(mut self) -> Result<SessionEnd, StoreError> {
        let Some(machine) = self.owner.linked.as_ref().map(|linked| linked.machine.clone()) else {
            return Ok(SessionEnd::Lost);
        };
        let mut events = match self.handshake(&machine).await? {
            Ok(events) => events,
            Err(end) => return Ok(end),
        };
        self.owner.context.config.fail_points.reach("begun").await;
        // Adopted or relinked: the job runs already, so tools may reach it at once.
        if self.row.state != JobState::Starting {
            self.owner.publish(self.row);
        }
        // Before the first event is read: the job's process may connect as soon as it begins.
        self.owner.open_egress(self.row).await?;
        let agent = self.owner.agent.as_ref().map(TaskServices::gateways);
        let _gateways = self.owner.egress_log.as_ref().map(|egress_log| egress_log.serve(&machine, agent));
        self.observers = Some(JobObservers::begin(&self.owner.context, self.row, &machine));
        let end = self.follow(&machine, &mut events).await?;
        // The next session resumes from the committed position. Output that was received and not committed would come twice.
        if matches!(end, SessionEnd::Lost) {
            self.commit_rest().await?;
        }
        if let Some(linked) = self.owner.linked.as_mut() {
            linked.events = Some(events);
        }
        Ok(end)
    }

    async fn follow(
        &mut self,
        machine: &SharedMachine,
        events: &mut GuestEventStream,
    ) -> Result<SessionEnd, StoreError> {
        // The row may have had a request before this link was made; the watch wakes only for later ones.
        self.check_requests(machine).await;
        self.hold_clocks(machine).await;
        self.keep_time(machine).await;
        let (context, job) = (Arc::clone(&self.owner.context), self.row.id.clone());
        loop {
            // The end waits for the commit under way: it must not overtake output that was received before it.
            if let Some(exit) = self.ended.filter(|_| self.pending.is_none()) {
                self.finish(exit, events).await?;
                return Ok(SessionEnd::Ended);
            }
            // Backpressure: a guest that sends faster than the disk writes has to wait, but commits go on.
            let held_until = self.held_until();
            let may_read = self.ended.is_none()
                && held_until.is_none()
                && self.recorder.pending_bytes() < MAX_PENDING_BYTES;
            let may_flush = self.pending.is_none() && self.flush_at.is_some();
            let question_until = self.question_until();
            // Every branch is cancel-safe: the event stream, the channels and the watch keep every item until it is taken, and
            // the commit is a future in `self.pending`. Output does not starve the others, because tokio picks a ready branch
            // at random. The branches of the backstop, of the verdict and of the watch must always be open: they end a job whose
            // guest hangs or floods.
            tokio::select! {
                incoming = events.next(), if may_read => match incoming {
                    Ok(incoming) => {
                        if let Err(outcome) = self.take(incoming) {
                            return Ok(SessionEnd::Refused(outcome));
                        }
                    }
                    Err(MachineError::Malformed(what)) => return Ok(SessionEnd::Refused(garbage(&what))),
                    Err(_) => return Ok(SessionEnd::Lost),
                },
                // Closed while many changes wait: the gateways then wait too, which bounds memory.
                attempt = attempted(&mut self.owner.egress_log), if self.changes.len() < MAX_WAITING_CHANGES => {
                    self.take_attempt(attempt);
                }
                report = next_model_report(&mut self.owner.agent), if self.changes.len() < MAX_WAITING_CHANGES => {
                    self.take_model_report(report);
                }
                change = next_observed(&mut self.observers), if self.changes.len() < MAX_WAITING_CHANGES => {
                    self.changes.push(change);
                    self.flush_by(Instant::now() + FLUSH_DELAY);
                }
                committed = next_commit(&mut self.pending) => self.committed(committed?, events).await?,
                () = until(self.flush_at), if may_flush => self.begin_commit_with_room(),
                // The next round takes output again.
                () = until(held_until), if held_until.is_some() => {}
                verdict = context.verdicts.wait(&job) => {
                    return Ok(SessionEnd::Refused(JobOutcome::of_verdict(verdict)));
                }
                () = until(Some(self.disk_look_at)) => {
                    if self.has_lost_its_disk().await {
                        return Ok(SessionEnd::DiskLost);
                    }
                }
                () = self.owner.watch.changed() => {
                    if let Some(end) = self.look_at_row(machine).await? {
                        return Ok(end);
                    }
                }
                () = until(question_until), if !self.end_asked => self.unanswered(machine).await?,
                // `follow` in `following` sees that the deadline has passed, and kills the machine.
                () = until(Some(self.backstop.at)) => return Ok(SessionEnd::Lost),
            }
        }
    }

    /// Returns the time until which output is not taken. The end of a job does not wait: its guest has little left to send.
    fn held_until(&mut self) -> Option<Instant> {
        if self.end_asked { None } else { self.pace.ready_at(Instant::now()) }
    }

    /// True if the sandbox can't write to its disk any more.
    async fn has_lost_its_disk(&mut self) -> bool {
        self.disk_look_at = Instant::now() + DISK_STATE_INTERVAL;
        let context = &self.owner.context;
        match (context.driver(self.row), self.row.sandbox_id.as_ref()) {
            (Some(driver), Some(sandbox)) => driver.disk_state(sandbox).await == DiskState::ReadOnly,
            _ => false,
        }
    }

    fn take(&mut self, incoming: FromGuest) -> Result<(), JobOutcome> {
        match incoming {
            FromGuest::Output(mut chunk) => {
                // The guest counts from the start of its machine. A task in its second machine has output of the first before
                // that.
                chunk.offset = self.row.host_offset(chunk.stream, chunk.offset);
                self.pace.charge(chunk.bytes.len(), Instant::now());
                // A gap or an absurd offset is a broken protocol, not an error of the host.
                self.recorder.push(chunk).map_err(|error| garbage(&error.to_string()))?;
                let soon = match self.last_flush {
                    Some(last) if self.recorder.pending_bytes() < FLUSH_BYTES => last + FLUSH_DELAY,
                    _ => Instant::now(),
                };
                self.flush_by(soon);
            }
            FromGuest::Event(event) => self.take_event(event),
        }
        Ok(())
    }

    fn take_attempt(&mut self, attempt: EgressAttempt) {
        if let Some(egress_log) = &mut self.owner.egress_log {
            self.changes.extend(egress_log.record(attempt));
        }
        self.flush_by(Instant::now() + FLUSH_DELAY);
    }

    fn take_model_report(&mut self, report: ModelReport) {
        if let ModelReport::Settled(waiting) = report {
            self.settled_next.push(waiting);
            // Nothing may be left to commit, and then nothing is waited for.
            self.flush_by(Instant::now());
            return;
        }
        if let Some(agent) = &mut self.owner.agent {
            self.changes.extend(agent.record(report));
        }
        self.flush_by(Instant::now() + FLUSH_DELAY);
    }

    fn take_event(&mut self, event: SequencedEvent) {
        // After a resume the guest may repeat events that were received and not acknowledged.
        if event.sequence <= self.sequence {
            return;
        }
        self.sequence = event.sequence;
        match event.event {
            GuestEvent::Started => self.started(),
            GuestEvent::Ended { exit } => self.ended = Some(exit),
            GuestEvent::KeeperRestarted => {
                self.note("the daemon of the sandbox was started again; processes went on")
            }
            GuestEvent::Note { text } => self.note(&text),
        }
        // In the same commit as the event's effects: otherwise a crash could repeat or lose them.
        self.changes.push(Change::GuestSequence(event.sequence));
        self.flush_by(Instant::now() + EVENT_FLUSH_DELAY);
    }

    fn started(&mut self) {
        let moving = self.changes.iter().any(|change| matches!(change, Change::Sandbox(SandboxState::Live)));
        if self.row.state != JobState::Starting && self.row.sandbox == SandboxState::Starting && !moving {
            // Another machine of a task that ran before.
            self.owner.publish(self.row);
            self.changes.push(Change::Sandbox(SandboxState::Live));
        }
        if self.row.state == JobState::Starting && !moving {
            // Tools reach the machine before the status says so.
            self.owner.publish(self.row);
            self.changes.push(Change::Sandbox(SandboxState::Live));
            self.changes.push(Change::Move { to: JobState::Running, reason: None });
        }
    }

    fn note(&mut self, text: &str) {
        // The text comes from the sandbox, and every note is stored for good.
        let text: String = text.chars().take(limits::TEXT_BYTES).collect();
        self.changes.push(Change::Event(StoredEvent::Note { text }));
    }

    fn flush_by(&mut self, at: Instant) {
        self.flush_at = Some(self.flush_at.map_or(at, |planned| planned.min(at)));
    }

    /// Reads the row again after a commit of the job, which may be another's: a request to cancel or delete, or an answer.
    async fn look_at_row(&mut self, machine: &SharedMachine) -> Result<Option<SessionEnd>, StoreError> {
        let Some(fresh) = self.owner.context.store.any_job(&self.row.id).await? else {
            return Err(StoreError::Stale(self.row.id.clone()));
        };
        if fresh.epoch != self.row.epoch {
            return Err(StoreError::Stale(self.row.id.clone()));
        }
        if fresh.delete_requested {
            return Ok(Some(SessionEnd::Deleted(Box::new(fresh))));
        }
        // A commit of this session may have brought a newer row than the one just read.
        if fresh.revision > self.row.revision {
            *self.row = fresh;
        }
        self.check_requests(machine).await;
        self.hold_clocks(machine).await;
        self.keep_time(machine).await;
        Ok(None)
    }

    /// Passes a request to end the job on to the guest, once over each link.
    async fn check_requests(&mut self, machine: &SharedMachine) {
        if !self.row.cancel_requested || self.end_asked {
            return;
        }
        // Set before the call: a guest that does not answer is not asked again over this link, and the backstop ends it.
        self.end_asked = true;
        *self.backstop = self.backstop.clone().min(self.owner.cancel_backstop());
        let grace = self.owner.context.config.end_grace;
        let asked =
            tokio::time::timeout(HANDSHAKE_TIMEOUT, machine.end_job(EndReason::Cancelled, grace)).await;
        if !matches!(asked, Ok(Ok(_))) {
            tracing::warn!(job = %self.row.id, "the guest did not take the request to end; the backstop will");
        }
    }
}

async fn attempted(egress_log: &mut Option<EgressLog>) -> EgressAttempt {
    match egress_log {
        Some(egress_log) => egress_log.next().await,
        None => std::future::pending().await,
    }
}

async fn next_model_report(agent: &mut Option<TaskServices>) -> ModelReport {
    match agent {
        Some(agent) => agent.next().await,
        None => std::future::pending().await,
    }
}

async fn next_observed(observers: &mut Option<JobObservers>) -> Change {
    match observers {
        Some(observers) => observers.next().await,
        None => std::future::pending().await,
    }
}

/// The outcome of a guest that breaks the protocol. The host ends its sandbox.
fn garbage(what: &str) -> JobOutcome {
    let message = format!("the sandbox broke the protocol: {what}");
    JobOutcome::failed(FailureCode::SandboxMisbehaved, message, None)
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
