//! Retention: removes ended jobs by age and by total size, oldest first. Always keeps the newest job.
//!
//! Ages are computed from the times that the store committed, by a clock that does not jump (`retention_clock`). A download that
//! has begun is not disturbed.

use futures_util::StreamExt;
use sandyard_protocol::ErrorChain;

use super::retention_clock::RetentionClock;
use crate::audit::{AuditActor, AuditEntry, AuditFacts, CallerFacts};
use crate::config::RetentionConfig;
use crate::job::JobId;
use crate::store::{EndedJob, StoreError};
use crate::yard;
use crate::yard::YardContext;

/// Deletions under way at once. The store writes waiting ones in one commit.
const DELETIONS_AT_ONCE: usize = 256;
/// Jobs that one sweep marks. The loop goes on between two sweeps.
const SWEEP_JOBS: usize = 2048;

/// How much a sweep left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepRest {
    /// Nothing is due.
    Nothing,
    /// More jobs are due than one sweep marks.
    More,
}

/// Marks jobs as deleted. The loop then takes them as orphans and their owner removes them.
pub(super) async fn sweep(context: &YardContext, clock: &mut RetentionClock) -> SweepRest {
    clock.advance(context.clock.reading());
    let ended = match due(context, clock).await {
        Ok(ended) => ended,
        Err(error) => {
            tracing::warn!(error = %ErrorChain(&error), "ended jobs could not be listed");
            return SweepRest::Nothing;
        }
    };
    let mut gone = to_remove(&ended, &context.config.retention, clock);
    let rest = if gone.len() > SWEEP_JOBS { SweepRest::More } else { SweepRest::Nothing };
    gone.truncate(SWEEP_JOBS);
    let marking = futures_util::stream::iter(gone).map(|id| mark(context, id));
    let failed = marking.buffer_unordered(DELETIONS_AT_ONCE).filter_map(|marked| async move { marked.err() });
    let failures: Vec<StoreError> = failed.collect().await;
    match failures.first() {
        Some(error) => {
            tracing::warn!(error = %ErrorChain(error), jobs = failures.len(), "old jobs could not be removed");
            SweepRest::Nothing
        }
        None => rest,
    }
}

async fn mark(context: &YardContext, id: JobId) -> Result<(), StoreError> {
    let facts = AuditFacts::Delete(CallerFacts { by: "retention".to_owned(), over: None });
    // `None`: a client deleted the job since it was listed.
    if context.request_delete(&id, AuditEntry::new(AuditActor::Host, facts)).await?.is_some() {
        yard::count(&context.metrics.jobs_retired);
    }
    Ok(())
}

/// Returns all ended jobs. Returns none, without a scan, if no job is old and the total size is within its bound.
async fn due(context: &YardContext, clock: &RetentionClock) -> Result<Vec<EndedJob>, StoreError> {
    let config = &context.config.retention;
    let retained = context.store.retained().await?;
    let old = retained.oldest_ms.is_some_and(|oldest| is_old(oldest, config, clock));
    if old || retained.bytes > config.bytes { context.store.ended().await } else { Ok(Vec::new()) }
}

fn is_old(finished_ms: i64, config: &RetentionConfig, clock: &RetentionClock) -> bool {
    clock.age_of(finished_ms) >= config.age
}

/// Returns the jobs to remove; `ended` is sorted by end, oldest first.
fn to_remove(ended: &[EndedJob], config: &RetentionConfig, clock: &RetentionClock) -> Vec<JobId> {
    let mut total: u64 = ended.iter().map(|job| job.bytes).sum();
    let mut gone = Vec::new();
    // Without the last: the newest job is kept whatever its size, or a large result would be gone before it is downloaded.
    for job in ended.iter().take(ended.len().saturating_sub(1)) {
        let old = is_old(job.finished_ms, config, clock);
        if !old && total <= config.bytes {
            continue;
        }
        total -= job.bytes;
        gone.push(job.id.clone());
    }
    gone
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config(age_s: u64, bytes: u64) -> RetentionConfig {
        RetentionConfig { age: Duration::from_secs(age_s), bytes, interval: Duration::from_secs(1) }
    }

    fn ended(jobs: &[(i64, u64)]) -> Vec<EndedJob> {
        jobs.iter()
            .map(|(finished_ms, bytes)| EndedJob {
                id: crate::job::random_id().unwrap(),
                finished_ms: *finished_ms,
                bytes: *bytes,
            })
            .collect()
    }

    fn at(wall_ms: i64) -> RetentionClock {
        RetentionClock::standing_at(wall_ms)
    }

    #[test]
    fn old_ones_go_but_never_the_newest() {
        let jobs = ended(&[(0, 1), (5_000, 1), (9_000, 1)]);
        let gone = to_remove(&jobs, &config(6, 100), &at(11_000));
        assert_eq!(gone, [jobs[0].id.clone(), jobs[1].id.clone()]);
        assert_eq!(to_remove(&jobs, &config(1, 100), &at(1_000_000)).len(), 2);
    }

    #[test]
    fn the_oldest_go_until_the_rest_fits() {
        let jobs = ended(&[(1, 50), (2, 30), (3, 30), (4, 500)]);
        assert_eq!(to_remove(&jobs, &config(1_000, 560), &at(5)).len(), 1);
        assert_eq!(to_remove(&jobs, &config(1_000, 1), &at(5)).len(), 3);
        assert!(to_remove(&jobs, &config(1_000, 1_000), &at(5)).is_empty());
    }

    #[test]
    fn l31_a_clock_that_jumped_back_removes_nothing() {
        let jobs = ended(&[(10_000, 1), (20_000, 1)]);
        assert!(to_remove(&jobs, &config(6, 100), &at(5_000)).is_empty());
    }

    #[test]
    fn d7_a_clock_15_days_ahead_removes_nothing() {
        let day_ms = 24 * 3600 * 1000;
        let jobs = ended(&[(0, 1), (1_000, 1), (2_000, 1)]);
        let two_weeks = config(14 * 24 * 3600, 100);
        let mut clock = at(3_000);
        clock.jump(15 * day_ms);
        assert!(to_remove(&jobs, &two_weeks, &clock).is_empty());
        clock.pass(14 * day_ms);
        assert_eq!(to_remove(&jobs, &two_weeks, &clock).len(), 2, "they go when they are that old");
    }
}
