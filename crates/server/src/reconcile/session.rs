//! One link's worth of following a job: events and output in, commits out, acknowledgements back.
//!
//! Reading goes on while a commit is under way, up to a bound. Output waits a moment for more of it, except the first
//! after a pause; whatever was received is committed before the session returns, so a resume begins where the store ends.

mod clocks;

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sandyard_protocol::{Ack, BeginJob, EndReason, Exit, GuestEvent, Resume, SequencedEvent, limits};
use sandyard_sandbox::machine::{EventStream, FromGuest, MachineError};
use serde_json::json;

use super::agent::Agent;
use super::following::{Backstop, SharedMachine, circumstances, time_left};
use super::outcome::{Circumstances, Outcome};
use super::task::Task;
use super::way_out::WayOut;
use crate::app::chain;
use crate::gateways::egress::Attempt;
use crate::gateways::model::Told;
use crate::output::{Flush, Recorder, Take};
use crate::states::{JobState, SandboxState};
use crate::store::{Change, JobRow, StoreError};

use clocks::Clocks;

/// Output is committed at least this often.
const FLUSH_AFTER: Duration = Duration::from_millis(20);
/// A change of state alone waits this long for the first output, so that a short job needs one commit.
const EVENT_FLUSH_AFTER: Duration = Duration::from_millis(4);
/// Output that does not wait.
const FLUSH_BYTES: usize = 256 * 1024;
/// Output received beyond which the guest has to wait: bounds memory, whatever the disk does.
const PENDING_BYTES: usize = 6 * 1024 * 1024;
/// How long a guest may take to open its event stream or to begin.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// Changes that wait for a commit, beyond which attempts to reach the network wait too.
const WAITING_CHANGES: usize = 256;
/// Pause before a commit that failed for want of disk or lock is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// How a session ended.
pub(super) enum SessionEnd {
    /// The job's end is committed; the row is in `finishing`.
    Ended,
    /// The link is gone.
    Lost,
    /// The job is to be deleted.
    Deleted(Box<JobRow>),
    /// The guest can't or must not go on.
    Refused(Outcome),
}

/// A commit under way, and what it commits.
type Flight = BoxFuture<'static, Result<(JobRow, Flush, u64), StoreError>>;

pub(super) struct Session<'a> {
    task: &'a mut Task,
    row: &'a mut JobRow,
    recorder: &'a mut Recorder,
    backstop: &'a mut Backstop,
    /// Moves and notes that wait for the next commit.
    changes: Vec<Change>,
    /// Last event of the guest that was received.
    sequence: u64,
    flush_at: Option<Instant>,
    last_flush: Option<Instant>,
    flight: Option<Flight>,
    ended: Option<Exit>,
    end_asked: bool,
    /// What the guest was told over this link.
    clocks: Clocks,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        task: &'a mut Task,
        row: &'a mut JobRow,
        recorder: &'a mut Recorder,
        backstop: &'a mut Backstop,
    ) -> Self {
        let sequence = row.guest_sequence;
        Self {
            task,
            row,
            recorder,
            backstop,
            changes: Vec::new(),
            sequence,
            flush_at: None,
            last_flush: None,
            flight: None,
            ended: None,
            end_asked: false,
            clocks: Clocks::Untold,
        }
    }

    pub(super) async fn run(mut self) -> Result<SessionEnd, StoreError> {
        let Some(machine) = self.task.linked.as_ref().map(|linked| linked.machine.clone()) else {
            return Ok(SessionEnd::Lost);
        };
        let mut events = match self.handshake(&machine).await? {
            Ok(events) => events,
            Err(end) => return Ok(end),
        };
        self.task.shared.config.fail_points.reach("begun").await;
        if self.row.state != JobState::Starting {
            self.task.publish(self.row);
        }
        self.task.open_way_out(self.row).await?;
        let agent = self.task.agent.as_ref().map(Agent::gateways);
        let _gateways = self.task.way_out.as_ref().map(|way_out| way_out.serve(&machine, agent));
        let end = self.follow(&machine, &mut events).await?;
        if matches!(end, SessionEnd::Lost) {
            self.settle().await?;
        }
        if let Some(linked) = self.task.linked.as_mut() {
            linked.events = Some(events);
        }
        Ok(end)
    }

    /// Opens the event stream and hands the job over; the latter is harmless if it has begun.
    async fn handshake(
        &mut self,
        machine: &SharedMachine,
    ) -> Result<Result<EventStream, SessionEnd>, StoreError> {
        let output = self.row.guest_offsets(self.row.output_offsets());
        let resume = Resume { next_sequence: self.row.guest_sequence + 1, output };
        let begins = self.row.state == JobState::Starting || self.row.sandbox == SandboxState::Starting;
        let begin = if begins { Some(begin_job(&self.task.shared, self.row).await?) } else { None };
        let open = async {
            let mut events = machine.event_stream().await?;
            events.resume(&resume).await?;
            Ok::<_, MachineError>(events)
        };
        let begin = async {
            match begin {
                Some(begin) => machine.begin_job(begin).await.map(|_| ()),
                None => Ok(()),
            }
        };
        let both = tokio::time::timeout(HANDSHAKE, async { tokio::join!(open, begin) }).await;
        Ok(match both {
            Ok((Ok(events), Ok(()))) => Ok(events),
            Ok((_, Err(MachineError::Guest(refusal)))) => {
                let message = format!("the job could not begin: {refusal}");
                Err(SessionEnd::Refused(Outcome::failed("job_refused", message, None)))
            }
            Ok((Err(error), _) | (_, Err(error))) => {
                tracing::warn!(job = %self.row.id, error = %chain(&error), "the guest can't be followed");
                Err(SessionEnd::Lost)
            }
            Err(_) => Err(SessionEnd::Lost),
        })
    }

    async fn follow(
        &mut self,
        machine: &SharedMachine,
        events: &mut EventStream,
    ) -> Result<SessionEnd, StoreError> {
        self.check_requests(machine).await;
        self.hold_clocks(machine).await;
        loop {
            if let Some(exit) = self.ended.filter(|_| self.flight.is_none()) {
                self.finish(exit, events).await?;
                return Ok(SessionEnd::Ended);
            }
            let may_read = self.ended.is_none() && self.recorder.pending_bytes() < PENDING_BYTES;
            let may_flush = self.flight.is_none() && self.flush_at.is_some();
            let question_until = self.question_until();
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
                attempt = attempted(&mut self.task.way_out), if self.changes.len() < WAITING_CHANGES => {
                    self.take_attempt(attempt);
                }
                told = told(&mut self.task.agent), if self.changes.len() < WAITING_CHANGES => {
                    self.take_told(told);
                }
                landed = landing(&mut self.flight) => self.landed(landed?, events).await?,
                () = until(self.flush_at), if may_flush => self.take_off(Take::WholeCharacters),
                () = self.task.watch.changed() => {
                    if let Some(end) = self.look_at_row(machine).await? {
                        return Ok(end);
                    }
                }
                () = until(question_until), if !self.end_asked => self.unanswered(machine).await?,
                () = until(Some(self.backstop.at)) => return Ok(SessionEnd::Lost),
            }
        }
    }

    fn take(&mut self, incoming: FromGuest) -> Result<(), Outcome> {
        match incoming {
            FromGuest::Output(mut chunk) => {
                chunk.offset = self.row.host_offset(chunk.stream, chunk.offset);
                self.recorder.push(chunk).map_err(|error| garbage(&error.to_string()))?;
                let soon = match self.last_flush {
                    Some(last) if self.recorder.pending_bytes() < FLUSH_BYTES => last + FLUSH_AFTER,
                    _ => Instant::now(),
                };
                self.flush_by(soon);
            }
            FromGuest::Event(event) => self.take_event(event),
        }
        Ok(())
    }

    fn take_attempt(&mut self, attempt: Attempt) {
        if let Some(way_out) = &mut self.task.way_out {
            self.changes.extend(way_out.record(attempt));
        }
        self.flush_by(Instant::now() + FLUSH_AFTER);
    }

    fn take_told(&mut self, told: Told) {
        if let Some(agent) = &mut self.task.agent {
            self.changes.extend(agent.record(told));
        }
        self.flush_by(Instant::now() + FLUSH_AFTER);
    }

    fn take_event(&mut self, event: SequencedEvent) {
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
        self.changes.push(Change::GuestSequence(event.sequence));
        self.flush_by(Instant::now() + EVENT_FLUSH_AFTER);
    }

    fn started(&mut self) {
        let moving = self.changes.iter().any(|change| matches!(change, Change::Sandbox(SandboxState::Live)));
        if self.row.state != JobState::Starting && self.row.sandbox == SandboxState::Starting && !moving {
            // Another machine of a task that ran before.
            self.task.publish(self.row);
            self.changes.push(Change::Sandbox(SandboxState::Live));
        }
        if self.row.state == JobState::Starting && !moving {
            // Within reach before the status says so.
            self.task.publish(self.row);
            self.changes.push(Change::Sandbox(SandboxState::Live));
            self.changes.push(Change::Move { to: JobState::Running, reason: None });
        }
    }

    fn note(&mut self, text: &str) {
        let text: String = text.chars().take(limits::TEXT_BYTES).collect();
        self.changes.push(Change::Event { kind: "note", data: json!({ "text": text }) });
    }

    fn flush_by(&mut self, at: Instant) {
        self.flush_at = Some(self.flush_at.map_or(at, |planned| planned.min(at)));
    }

    /// Begins a commit of what has come so far.
    fn take_off(&mut self, how: Take) {
        let flush = self.recorder.take(how);
        let mut changes = std::mem::take(&mut self.changes);
        changes.extend(flush.changes.iter().cloned());
        self.flush_at = None;
        self.last_flush = Some(Instant::now());
        if changes.is_empty() {
            return;
        }
        let (shared, row, sequence) = (self.task.shared.clone(), self.row.clone(), self.sequence);
        self.flight = Some(
            async move {
                write_patiently(&flush).await;
                let row = commit_patiently(&shared, &row, changes).await?;
                Ok((row, flush, sequence))
            }
            .boxed(),
        );
    }

    /// A commit is done: tell the guest, and go on with what came meanwhile.
    async fn landed(
        &mut self,
        landed: (JobRow, Flush, u64),
        events: &mut EventStream,
    ) -> Result<(), StoreError> {
        self.flight = None;
        let (row, flush, sequence) = landed;
        self.arrived(row, flush.bytes());
        self.task.shared.config.fail_points.reach("committed").await;
        // A link that is gone is noticed by the next read.
        let output = self.row.guest_offsets(flush.offsets);
        let _ = events.acknowledge(&Ack { sequence, output }).await;
        flush.clean().await;
        if self.recorder.pending_bytes() > 0 {
            self.flush_by(self.last_flush.map_or_else(Instant::now, |last| last + FLUSH_AFTER));
        }
        if self.recorder.pending_bytes() >= FLUSH_BYTES {
            self.flush_by(Instant::now());
        }
        Ok(())
    }

    fn arrived(&mut self, row: JobRow, bytes: u64) {
        // A look at the row may have been later than this commit.
        if row.revision >= self.row.revision {
            *self.row = row;
        }
        self.task.shared.metrics.output_bytes.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        if self.row.state == JobState::Running {
            self.task.publish(self.row);
        }
    }

    /// Commits everything that was received, before the link is made again.
    async fn settle(&mut self) -> Result<(), StoreError> {
        loop {
            if let Some(flight) = self.flight.take() {
                let (row, flush, _) = flight.await?;
                self.arrived(row, flush.bytes());
                flush.clean().await;
            }
            self.take_off(Take::WholeCharacters);
            if self.flight.is_none() {
                return Ok(());
            }
        }
    }

    /// The job's process has ended and all its output is here: the last commit of this phase.
    async fn finish(&mut self, exit: Exit, events: &mut EventStream) -> Result<(), StoreError> {
        while self.recorder.pending_bytes() > crate::output::CHUNK_BYTES {
            self.take_off(Take::WholeCharacters);
            self.settle().await?;
        }
        self.started();
        let usage = usage(&self.task.shared, self.row).await;
        let latest = self.task.shared.store.any_job(&self.row.id).await?;
        let latest = latest.ok_or_else(|| StoreError::Stale(self.row.id.clone()))?;
        let around = Circumstances {
            usage: usage.as_ref(),
            disk_full: self.recorder.complained_of_full_disk(),
            ..circumstances(self.row)
        };
        let outcome = self.outcome(exit, around, &latest);
        let flush = self.recorder.take(Take::AllOfIt);
        let mut changes = std::mem::take(&mut self.changes);
        changes.extend(flush.changes.iter().cloned());
        changes.extend(usage.map(Change::Usage));
        changes.push(Change::Ended {
            outcome: outcome.state,
            exit_code: outcome.exit_code,
            failure: match &self.task.way_out {
                Some(way_out) => way_out.explain(outcome.failure),
                None => outcome.failure,
            },
        });
        changes.push(Change::Move { to: JobState::Finishing, reason: outcome.reason });
        write_patiently(&flush).await;
        let row = commit_patiently(&self.task.shared, self.row, changes).await?;
        self.arrived(row, flush.bytes());
        let output = self.row.guest_offsets(flush.offsets);
        let _ = events.acknowledge(&Ack { sequence: self.sequence, output }).await;
        flush.clean().await;
        Ok(())
    }

    /// Something was committed for the job, perhaps by somebody else.
    async fn look_at_row(&mut self, machine: &SharedMachine) -> Result<Option<SessionEnd>, StoreError> {
        let Some(fresh) = self.task.shared.store.any_job(&self.row.id).await? else {
            return Err(StoreError::Stale(self.row.id.clone()));
        };
        if fresh.epoch != self.row.epoch {
            return Err(StoreError::Stale(self.row.id.clone()));
        }
        if fresh.delete_requested {
            return Ok(Some(SessionEnd::Deleted(Box::new(fresh))));
        }
        if fresh.revision > self.row.revision {
            *self.row = fresh;
        }
        self.check_requests(machine).await;
        self.hold_clocks(machine).await;
        Ok(None)
    }

    /// Passes a request to end the job on to the guest, once for each link.
    async fn check_requests(&mut self, machine: &SharedMachine) {
        if !self.row.cancel_requested || self.end_asked {
            return;
        }
        self.end_asked = true;
        *self.backstop = self.backstop.clone().min(self.task.cancel_backstop());
        let grace = self.task.shared.config.end_grace;
        let asked = tokio::time::timeout(HANDSHAKE, machine.end_job(EndReason::Cancelled, grace)).await;
        if !matches!(asked, Ok(Ok(_))) {
            tracing::warn!(job = %self.row.id, "the guest did not take the request to end; the backstop will");
        }
    }
}

impl Task {
    /// Makes the job's way to the network, and a task's desk, once.
    async fn open_way_out(&mut self, row: &JobRow) -> Result<(), StoreError> {
        if self.way_out.is_none() {
            let stored = self.shared.store.request(&row.id).await?;
            let request = stored.ok_or(StoreError::Damaged { what: "request" })?.job;
            self.way_out = Some(WayOut::new(&request, row, &self.shared.config.egress));
            if row.task.is_some() {
                self.agent = Some(Agent::new(&self.shared, &request, row).await);
            }
        }
        Ok(())
    }
}

async fn attempted(way_out: &mut Option<WayOut>) -> Attempt {
    match way_out {
        Some(way_out) => way_out.next().await,
        None => std::future::pending().await,
    }
}

async fn told(agent: &mut Option<Agent>) -> Told {
    match agent {
        Some(agent) => agent.next().await,
        None => std::future::pending().await,
    }
}

/// What the guest is told to do.
async fn begin_job(shared: &super::Shared, row: &JobRow) -> Result<BeginJob, StoreError> {
    let stored = shared.store.request(&row.id).await?;
    let request = stored.ok_or(StoreError::Damaged { what: "request" })?.job;
    Ok(BeginJob {
        work: request.work(),
        env: request.env,
        timeout_ms: u64::try_from(time_left(row).as_millis()).unwrap_or(u64::MAX),
        idle_timeout_ms: row.limits.idle_timeout_s.map(|seconds| seconds.saturating_mul(1000)),
        keep: row.keep,
        trust: if request.egress.is_empty() { None } else { shared.config.egress.trust.clone() },
    })
}

/// What the machine used so far, if that can be had.
async fn usage(shared: &super::Shared, row: &JobRow) -> Option<sandyard_sandbox::driver::Usage> {
    let driver = shared.driver(row)?;
    let sandbox = row.sandbox_id()?;
    let usage = tokio::time::timeout(Duration::from_secs(2), driver.usage(&sandbox)).await.ok()?;
    usage.inspect_err(|error| tracing::warn!(error = %chain(error), "no usage")).ok()
}

/// A guest that breaks the protocol is not talked to any more.
fn garbage(what: &str) -> Outcome {
    let message = format!("the sandbox broke the protocol: {what}");
    Outcome::failed("sandbox_misbehaved", message, None)
}

async fn landing(flight: &mut Option<Flight>) -> Result<(JobRow, Flush, u64), StoreError> {
    match flight {
        Some(flight) => flight.await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// A full disk holds the job up, it does not lose its output.
async fn write_patiently(flush: &Flush) {
    while let Err(error) = flush.write().await {
        tracing::warn!(%error, "output could not be written, trying again");
        tokio::time::sleep(RETRY).await;
    }
}

async fn commit_patiently(
    shared: &super::Shared,
    row: &JobRow,
    changes: Vec<Change>,
) -> Result<JobRow, StoreError> {
    loop {
        match shared.commit(row, changes.clone()).await {
            Err(error @ StoreError::Database(_)) if error.is_transient() => {
                tracing::warn!(error = %chain(&error), "a commit failed, trying again");
                tokio::time::sleep(RETRY).await;
            }
            other => return other,
        }
    }
}
