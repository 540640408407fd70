//! The beginning of a session: the event stream, the job itself, and the gateways for streams that the guest opens.

use sandyard_protocol::{BeginJob, ErrorChain, Resume};
use sandyard_sandbox::machine::{GuestEventStream, MachineError};

use super::{HANDSHAKE_TIMEOUT, JobSession, SessionEnd};
use crate::job::FailureCode;
use crate::job::JobRow;
use crate::job::{JobState, SandboxState};
use crate::lifecycle::deadlines::time_left;
use crate::lifecycle::egress_log::EgressLog;
use crate::lifecycle::linking::SharedMachine;
use crate::lifecycle::outcome::JobOutcome;
use crate::lifecycle::owner::JobOwner;
use crate::lifecycle::task_gateways::TaskServices;
use crate::store::StoreError;
use crate::yard::YardContext;

impl JobSession<'_> {
    /// Opens the event stream and hands the job over; the latter is harmless if it has begun.
    pub(super) async fn handshake(
        &mut self,
        machine: &SharedMachine,
    ) -> Result<Result<GuestEventStream, SessionEnd>, StoreError> {
        let output = self.row.guest_offsets(self.row.output_offsets());
        let resume = Resume { next_sequence: self.row.guest_sequence + 1, output };
        // Repeated after every lost link until `started` is committed: a second order for the same job is harmless.
        let begins = self.row.state == JobState::Starting || self.row.sandbox == SandboxState::Starting;
        let begin = if begins { Some(begin_job(&self.owner.context, self.row).await?) } else { None };
        self.timed_by_s = begins.then_some(self.row.limits.timeout_s);
        // A link has one event stream; the preparation of the job may have opened it.
        let opened = self.owner.linked.as_mut().and_then(|linked| linked.events.take());
        let open = async {
            let mut events = match opened {
                Some(events) => events,
                None => machine.event_stream().await?,
            };
            events.resume(&resume).await?;
            Ok::<_, MachineError>(events)
        };
        let begin = async {
            match begin {
                Some(begin) => machine.begin_job(begin).await.map(|_| ()),
                None => Ok(()),
            }
        };
        // Both at once saves a round trip. Bounded, because a guest may accept the streams and never answer.
        let both = tokio::time::timeout(HANDSHAKE_TIMEOUT, async { tokio::join!(open, begin) }).await;
        Ok(match both {
            Ok((Ok(events), Ok(()))) => Ok(events),
            // The guest refused the job itself, so another link would be refused too.
            Ok((_, Err(MachineError::Guest(refusal)))) => {
                let message = format!("the job could not begin: {refusal}");
                Err(SessionEnd::Refused(JobOutcome::failed(FailureCode::JobRefused, message, None)))
            }
            Ok((Err(error), _) | (_, Err(error))) => {
                tracing::warn!(job = %self.row.id, error = %ErrorChain(&error), "the guest can't be followed");
                Err(SessionEnd::Lost)
            }
            Err(_) => Err(SessionEnd::Lost),
        })
    }
}

impl JobOwner {
    /// Opens the job's egress gateway and, for a task, its journal service and model gateway, once.
    pub(super) async fn open_egress(&mut self, row: &JobRow) -> Result<(), StoreError> {
        if self.egress_log.is_none() {
            let stored = self.context.store.request(&row.id).await?;
            let request = stored.ok_or(StoreError::Damaged { what: "request" })?.job;
            let usual_s = self.context.config.default_limits.timeout_s;
            self.asked_timeout_s = Some(request.limits.timeout_s.unwrap_or(usual_s));
            self.egress_log = Some(EgressLog::new(&request, row, &self.context));
            if row.task.is_some() {
                self.agent = Some(TaskServices::new(&self.context, &request, row).await);
            }
        }
        Ok(())
    }
}

/// Returns the order to begin that the guest gets.
async fn begin_job(context: &YardContext, row: &JobRow) -> Result<BeginJob, StoreError> {
    let stored = context.store.request(&row.id).await?;
    let request = stored.ok_or(StoreError::Damaged { what: "request" })?.job;
    Ok(BeginJob {
        work: request.work(),
        env: request.env,
        // The rest of the job's time, not all of it: a task in its second machine has used some.
        timeout_ms: u64::try_from(time_left(row, context.clock).as_millis()).unwrap_or(u64::MAX),
        idle_timeout_ms: row.limits.idle_timeout_s.map(|seconds| seconds.saturating_mul(1000)),
        keep: row.keep,
        // A job without network has no use for the operator's certificates.
        trust: if request.egress.is_empty() { None } else { context.config.egress.trust.clone() },
    })
}
