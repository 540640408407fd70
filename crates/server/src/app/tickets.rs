//! Tickets: single use, 30 s, bound to one job and one purpose. Kept in memory: one that is lost is asked for again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::model::TicketPurpose;
use super::{AppError, ErrorCode, Yard};
use crate::job::JobId;

/// How long a ticket is good.
const LIFE: Duration = Duration::from_secs(30);
/// Tickets at once; more are refused until some have run out.
const MOST: usize = 10_000;

/// The tickets that are good, by their hash: a look at the memory of the map gives none away.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    good: Mutex<HashMap<[u8; 32], Ticket>>,
}

#[derive(Debug)]
struct Ticket {
    job: JobId,
    purpose: TicketPurpose,
    until: Instant,
}

impl Tickets {
    fn make(
        &self,
        job: &JobId,
        purpose: TicketPurpose,
        now: Instant,
    ) -> Result<Option<String>, crate::job::RandomError> {
        let ticket = crate::job::random_id()?.to_string();
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.len() >= MOST {
            good.retain(|_, ticket| ticket.until > now);
        }
        if good.len() >= MOST {
            return Ok(None);
        }
        good.insert(hash(&ticket), Ticket { job: job.clone(), purpose, until: now + LIFE });
        Ok(Some(ticket))
    }

    fn redeem(&self, job: &JobId, purpose: TicketPurpose, ticket: &str, now: Instant) -> bool {
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        let found = good.remove(&hash(ticket));
        found.is_some_and(|found| found.job == *job && found.purpose == purpose && found.until > now)
    }
}

fn hash(ticket: &str) -> [u8; 32] {
    Sha256::digest(ticket.as_bytes()).into()
}

impl Yard {
    /// A ticket: single use, 30 s, for this job and purpose.
    pub async fn make_ticket(&self, id: &JobId, purpose: TicketPurpose) -> Result<String, AppError> {
        self.row(id).await?;
        let made =
            self.tickets.make(id, purpose, Instant::now()).map_err(|error| AppError::internal(&error))?;
        made.ok_or_else(|| {
            AppError::new(ErrorCode::TooManyTickets, "too many tickets are open").retry_after(LIFE.as_secs())
        })
    }

    /// Uses a ticket up; `false` if it is not good for this.
    pub fn redeem_ticket(&self, id: &JobId, purpose: TicketPurpose, ticket: &str) -> bool {
        self.tickets.redeem(id, purpose, ticket, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_for_its_job_and_purpose_and_not_for_long() {
        let tickets = Tickets::default();
        let (job, other) = (crate::job::random_id().unwrap(), crate::job::random_id().unwrap());
        let now = Instant::now();
        let make = || tickets.make(&job, TicketPurpose::Pty, now).unwrap().unwrap();
        let ticket = make();
        assert!(tickets.redeem(&job, TicketPurpose::Pty, &ticket, now));
        assert!(!tickets.redeem(&job, TicketPurpose::Pty, &ticket, now), "single use");
        assert!(!tickets.redeem(&other, TicketPurpose::Pty, &make(), now), "bound to the job");
        assert!(!tickets.redeem(&job, TicketPurpose::Download, &make(), now), "bound to the purpose");
        assert!(!tickets.redeem(&job, TicketPurpose::Pty, &make(), now + LIFE), "30 seconds");
        assert!(!tickets.redeem(&job, TicketPurpose::Pty, "made up", now));
    }
}
