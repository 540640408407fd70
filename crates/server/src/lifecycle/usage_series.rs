//! Samples what a job uses while it runs, as events, so that its course can be looked at later.
//!
//! The series is bounded: the time between two samples grows, and a sample like the one before is left out, so a job that rests
//! costs no commit.

use std::sync::Arc;
use std::time::Duration;

use sandyard_api::UsageSample;
use sandyard_sandbox::driver::Usage;
use tokio::sync::mpsc;

use crate::gateways::model::Money;
use crate::job::{Change, JobRow, StoredEvent};
use crate::yard::YardContext;

/// Time between two samples at the beginning.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(2);
/// Samples after which the time between two of them doubles.
const SAMPLES_AT_ONE_INTERVAL: u64 = 60;
/// Most doublings of the interval: then a sample in about a minute.
const MAX_DOUBLINGS: u64 = 5;
/// Longest wait for a driver that counts.
const USAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Processor time below which a job rests: a hundredth of a processor over the shortest interval.
const RESTING_CPU_S: f64 = 0.02;

/// Samples until the session ends.
pub(super) async fn record(context: Arc<YardContext>, row: &JobRow, changes: mpsc::Sender<Change>) {
    let (Some(driver), Some(sandbox)) = (context.driver(row), row.sandbox_id.as_ref()) else { return };
    let mut last: Option<UsageSample> = None;
    for taken in 0.. {
        tokio::time::sleep(interval(taken)).await;
        // A driver that can't tell now may later.
        let counted = tokio::time::timeout(USAGE_TIMEOUT, driver.usage(sandbox)).await;
        let Ok(Ok(usage)) = counted else { continue };
        let Ok(Some(row)) = context.store.any_job(&row.id).await else { return };
        let sample = sample(&usage, &row);
        if last.as_ref().is_some_and(|last| rests(last, &sample)) {
            continue;
        }
        last = Some(sample);
        if changes.send(Change::Event(StoredEvent::Usage(sample))).await.is_err() {
            return;
        }
    }
}

fn interval(taken: u64) -> Duration {
    let doublings = (taken / SAMPLES_AT_ONE_INTERVAL).min(MAX_DOUBLINGS);
    SHORTEST_INTERVAL * 2_u32.pow(u32::try_from(doublings).unwrap_or_default())
}

fn sample(usage: &Usage, row: &JobRow) -> UsageSample {
    let spent = row.task.as_ref().map(|task| task.spent).unwrap_or_default();
    UsageSample {
        cpu_s: usage.cpu_s,
        memory_bytes: usage.memory_bytes.unwrap_or(usage.peak_memory_bytes),
        egress_bytes: row.egress_bytes,
        tokens: spent.tokens_in.saturating_add(spent.tokens_out),
        usd: Money::from_units(spent.money).usd(),
    }
}

/// True if nothing worth a sample has happened in between.
fn rests(last: &UsageSample, next: &UsageSample) -> bool {
    let memory = last.memory_bytes.abs_diff(next.memory_bytes);
    next.cpu_s - last.cpu_s < RESTING_CPU_S
        && memory <= last.memory_bytes / 16
        && (last.egress_bytes, last.tokens) == (next.egress_bytes, next.tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_rests_costs_no_sample() {
        let sample = UsageSample { cpu_s: 1.0, memory_bytes: 1600, ..UsageSample::default() };
        assert!(rests(&sample, &UsageSample { memory_bytes: 1650, ..sample }));
        for busy in [
            UsageSample { cpu_s: 1.1, ..sample },
            UsageSample { memory_bytes: 1800, ..sample },
            UsageSample { egress_bytes: 1, ..sample },
            UsageSample { tokens: 1, ..sample },
        ] {
            assert!(!rests(&sample, &busy), "{busy:?}");
        }
    }

    #[test]
    fn long_jobs_are_sampled_more_rarely() {
        assert_eq!(interval(0), Duration::from_secs(2));
        assert_eq!(interval(SAMPLES_AT_ONE_INTERVAL), Duration::from_secs(4));
        assert_eq!(interval(u64::MAX), Duration::from_secs(64));
    }
}
