//! Makes tickets and uses them up.

use std::time::Instant;

use super::model::TicketTarget;
use super::open_tickets::TICKET_LIFETIME;
use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::auth::Caller;
use crate::job::JobId;

impl Yard {
    /// Makes a ticket for a job and purpose in the name of the caller.
    pub async fn make_ticket(&self, job: &JobAccess, purpose: TicketTarget) -> Result<String, AppError> {
        job.require(purpose.scope())?;
        self.row(job.id()).await?;
        let made = self.tickets.make(job.id(), job.caller(), purpose, Instant::now());
        let made = made.map_err(|error| AppError::internal(&error))?;
        made.ok_or_else(|| {
            AppError::new(ErrorCode::TooManyTickets, "too many tickets are open")
                .retry_after(TICKET_LIFETIME.as_secs())
        })
    }

    /// Uses a ticket up and returns its maker; `None` if it is not good for this job and purpose. The maker's right to the
    /// job is for [`Yard::job`] to check.
    pub fn redeem_ticket(&self, id: &JobId, purpose: TicketTarget, ticket: &str) -> Option<Caller> {
        self.tickets.redeem(id, purpose, ticket, Instant::now())
    }
}
