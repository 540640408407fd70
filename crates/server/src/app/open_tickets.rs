//! Tickets: single use, 30 s, bound to one job, one purpose and the caller who made it.
//!
//! They are kept in memory: a client that loses one asks for another. The holder acts in the name of the maker, whose right
//! to the job is checked again when the ticket is used.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::model::TicketTarget;
use crate::auth::Caller;
use crate::job::JobId;

/// Lifetime of a ticket.
pub(super) const TICKET_LIFETIME: Duration = Duration::from_secs(30);
/// Open tickets; more are refused until some have run out.
const MAX_TICKETS: usize = 10_000;

/// The open tickets by their hash, so that a dump of the map reveals none.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    good: Mutex<HashMap<[u8; 32], Ticket>>,
}

#[derive(Debug)]
struct Ticket {
    job: JobId,
    maker: Caller,
    purpose: TicketTarget,
    until: Instant,
}

impl Tickets {
    pub(super) fn make(
        &self,
        job: &JobId,
        maker: &Caller,
        purpose: TicketTarget,
        now: Instant,
    ) -> Result<Option<String>, crate::job::RandomError> {
        let ticket = crate::job::random_id()?.to_string();
        let mut good = self.good.lock();
        // Swept only when full: expired tickets are refused anyway, so they only cost memory.
        if good.len() >= MAX_TICKETS {
            good.retain(|_, ticket| ticket.until > now);
        }
        if good.len() >= MAX_TICKETS {
            return Ok(None);
        }
        good.insert(
            hash(&ticket),
            Ticket { job: job.clone(), maker: maker.clone(), purpose, until: now + TICKET_LIFETIME },
        );
        Ok(Some(ticket))
    }

    pub(super) fn redeem(
        &self,
        job: &JobId,
        purpose: TicketTarget,
        ticket: &str,
        now: Instant,
    ) -> Option<Caller> {
        let mut good = self.good.lock();
        // Removed before it is compared: a ticket that was shown in the wrong place is used up.
        let found = good.remove(&hash(ticket))?;
        let fits = found.job == *job && found.purpose == purpose && found.until > now;
        fits.then(|| found.maker.by_ticket())
    }
}

fn hash(ticket: &str) -> [u8; 32] {
    Sha256::digest(ticket.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_for_its_job_and_purpose_and_not_for_long() {
        let tickets = Tickets::default();
        let (job, other) = (crate::job::random_id().unwrap(), crate::job::random_id().unwrap());
        let now = Instant::now();
        let maker = Caller::operator().over_mcp();
        let make = || tickets.make(&job, &maker, TicketTarget::Pty, now).unwrap().unwrap();
        let ticket = make();
        let redeem = |job, purpose, ticket: &str, now| tickets.redeem(job, purpose, ticket, now);
        assert_eq!(redeem(&job, TicketTarget::Pty, &ticket, now), Some(maker.clone().by_ticket()));
        assert_eq!(redeem(&job, TicketTarget::Pty, &ticket, now), None, "single use");
        assert_eq!(redeem(&other, TicketTarget::Pty, &make(), now), None, "bound to the job");
        assert_eq!(redeem(&job, TicketTarget::Download, &make(), now), None, "bound to the purpose");
        assert_eq!(redeem(&job, TicketTarget::Pty, &make(), now + TICKET_LIFETIME), None, "30 seconds");
        assert_eq!(redeem(&job, TicketTarget::Pty, "made up", now), None);
    }
}
