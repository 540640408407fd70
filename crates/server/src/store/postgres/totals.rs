//! Totals over all jobs, which several servers change.
//!
//! Counting would scan the table, and a row with the totals would be the one that every commit changes. So each server counts once and
//! then adds up: its own commits as they are answered, those of others as they are announced. A count names the transactions that it
//! saw, and every change its transaction, so that none is added twice and none is left out, in whatever order they are learnt.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::job::JobState;
use crate::store::StateCounts;

/// Time for which a transaction is remembered. It may be announced that long after it was answered; the database ends those that take
/// longer.
const REMEMBERED: Duration = Duration::from_secs(120);

/// Number of jobs in each state, and bytes that all jobs keep, as changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TotalsChange {
    pub(super) states: [i64; 9],
    pub(super) bytes: i64,
}

impl TotalsChange {
    /// Counts the move of a job. `None` stands for a job that is not stored yet, or no longer.
    pub(super) fn moved(&mut self, from: Option<JobState>, to: Option<JobState>) {
        if let Some(from) = from {
            self.states[place(from)] -= 1;
        }
        if let Some(to) = to {
            self.states[place(to)] += 1;
        }
    }

    /// Counts a change of a job's size.
    pub(super) fn resized(&mut self, before: u64, after: u64) {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.bytes += signed(after) - signed(before);
    }

    fn add(&mut self, other: &Self) {
        for (sum, number) in self.states.iter_mut().zip(other.states) {
            *sum += number;
        }
        self.bytes += other.bytes;
    }

    /// As text, for an announcement.
    pub(super) fn encode(&self) -> String {
        let numbers: Vec<String> = self.states.iter().chain([&self.bytes]).map(i64::to_string).collect();
        numbers.join(",")
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        let numbers: Vec<i64> = text.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let (bytes, states) = numbers.split_last()?;
        Some(Self { states: states.try_into().ok()?, bytes: *bytes })
    }
}

fn place(state: JobState) -> usize {
    JobState::ALL.iter().position(|other| *other == state).unwrap_or(0)
}

/// The transactions that a count saw: `xmin:xmax:xip,xip…`, as the database writes it.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenTransactions {
    /// All before this one are over.
    all_before: u64,
    /// None from this one on had begun.
    none_from: u64,
    /// Those between that were under way.
    under_way: Vec<u64>,
}

impl SeenTransactions {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (all_before, none_from) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let under_way = parts.next()?.split(',').filter(|id| !id.is_empty());
        let under_way = under_way.map(|id| id.parse().ok()).collect::<Option<_>>()?;
        Some(Self { all_before, none_from, under_way })
    }

    fn saw(&self, transaction: u64) -> bool {
        transaction < self.all_before
            || (transaction < self.none_from && !self.under_way.contains(&transaction))
    }
}

/// The totals as this server knows them.
#[derive(Debug, Default)]
pub(super) struct Totals {
    sum: TotalsChange,
    seen: SeenTransactions,
    /// Changes that may not be in the next count.
    recent: HashMap<u64, (Instant, TotalsChange)>,
    forgotten_at: Option<Instant>,
}

impl Totals {
    /// Begins with a new count.
    pub(super) fn recount(&mut self, counted: TotalsChange, seen: SeenTransactions) {
        self.recent.retain(|transaction, _| !seen.saw(*transaction));
        self.sum = counted;
        self.recent.values().for_each(|(_, change)| self.sum.add(change));
        self.seen = seen;
    }

    /// Adds the change of a committed transaction, which may be known already.
    pub(super) fn add(&mut self, transaction: u64, change: TotalsChange, now: Instant) {
        if self.forgotten_at.is_none_or(|at| now.duration_since(at) > REMEMBERED) {
            self.recent.retain(|_, (at, _)| now.duration_since(*at) < REMEMBERED);
            self.forgotten_at = Some(now);
        }
        let is_new = self.recent.insert(transaction, (now, change)).is_none();
        if is_new && !self.seen.saw(transaction) {
            self.sum.add(&change);
        }
    }

    /// Number of jobs in each state.
    pub(super) fn states(&self) -> StateCounts {
        self.sum.states.map(|count| u64::try_from(count).unwrap_or(0))
    }

    /// Number of jobs that wait.
    pub(super) fn queued(&self) -> i64 {
        self.sum.states[place(JobState::Queued)]
    }

    /// Bytes of all jobs.
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.sum.bytes).unwrap_or(0)
    }
}

impl TotalsChange {
    /// Sets the number of jobs in a state, of a count.
    pub(super) fn count(&mut self, state: JobState, jobs: i64) {
        self.states[place(state)] = jobs;
    }

    /// The change of the queue's length.
    pub(super) fn queued(&self) -> i64 {
        self.states[place(JobState::Queued)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_more() -> TotalsChange {
        let mut change = TotalsChange::default();
        change.moved(None, Some(JobState::Queued));
        change
    }

    #[test]
    fn a_transaction_is_added_once_in_whatever_order_it_is_learnt() {
        let mut totals = Totals::default();
        let now = Instant::now();
        totals.add(7, one_more(), now);
        totals.add(7, one_more(), now);
        assert_eq!(totals.states()[0], 1, "answered and announced");
        // 5 was seen by the count, 7 was under way, 9 had not begun.
        totals.recount(one_more(), SeenTransactions::parse("7:8:7").unwrap());
        assert_eq!(totals.states()[0], 2);
        totals.add(5, one_more(), now);
        totals.add(9, one_more(), now);
        totals.add(7, one_more(), now);
        assert_eq!(totals.states()[0], 3);
        assert_eq!(TotalsChange::decode(&one_more().encode()), Some(one_more()));
        assert_eq!(TotalsChange::decode("1,2"), None);
    }

    #[test]
    fn transactions_are_forgotten_after_a_while() {
        let mut totals = Totals::default();
        let now = Instant::now();
        totals.add(1, one_more(), now);
        totals.add(2, one_more(), now + REMEMBERED * 2);
        assert_eq!((totals.recent.len(), totals.queued()), (1, 2));
    }
}
