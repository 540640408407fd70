//! Retention: removes ended jobs by age and by total size, oldest first. Always keeps the newest job.
//!
//! Ages are computed from the times that the store committed. A download that has begun is not disturbed.

use sandyard_protocol::ErrorChain;

use crate::audit::{AuditActor, AuditEntry, AuditFacts, CallerFacts};
use crate::config::RetentionConfig;
use crate::job::JobId;
use crate::store::{EndedJob, StoreError};
use crate::yard;
use crate::yard::YardContext;

/// Marks jobs as deleted. The loop then takes them as orphans and their owner removes them.
pub(super) async fn sweep(context: &YardContext) {
    let now_ms = context.clock.unix_ms();
    let ended = match due(context, now_ms).await {
        Ok(ended) => ended,
        Err(error) => return tracing::warn!(error = %ErrorChain(&error), "ended jobs could not be listed"),
    };
    for id in to_remove(&ended, &context.config.retention, now_ms) {
        let facts = AuditFacts::Delete(CallerFacts { by: "retention".to_owned(), over: None });
        let entry = AuditEntry::new(AuditActor::Host, facts);
        match context.request_delete(&id, entry).await {
            Ok(Some(_)) => yard::count(&context.metrics.jobs_retired),
            // A client deleted the job since it was listed.
            Ok(None) => {}
            Err(error) => {
                return tracing::warn!(error = %ErrorChain(&error), "an old job could not be removed");
            }
        }
    }
}

/// Returns all ended jobs. Returns none, without a scan, if no job is old and the total size is within its bound.
async fn due(context: &YardContext, now_ms: i64) -> Result<Vec<EndedJob>, StoreError> {
    let config = &context.config.retention;
    let retained = context.store.retained().await?;
    let old = retained.oldest_ms.is_some_and(|oldest| is_old(oldest, config, now_ms));
    if old || retained.bytes > config.bytes { context.store.ended().await } else { Ok(Vec::new()) }
}

fn is_old(finished_ms: i64, config: &RetentionConfig, now_ms: i64) -> bool {
    let age_ms = i64::try_from(config.age.as_millis()).unwrap_or(i64::MAX);
    // A clock that jumped back gives a negative age, which removes nothing.
    now_ms.saturating_sub(finished_ms) >= age_ms
}

/// Returns the jobs to remove; `ended` is sorted by end, oldest first.
fn to_remove(ended: &[EndedJob], config: &RetentionConfig, now_ms: i64) -> Vec<JobId> {
    let mut total: u64 = ended.iter().map(|job| job.bytes).sum();
    let mut gone = Vec::new();
    // Without the last: the newest job is kept whatever its size, or a large result would be gone before it is downloaded.
    for job in ended.iter().take(ended.len().saturating_sub(1)) {
        let old = is_old(job.finished_ms, config, now_ms);
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

    #[test]
    fn old_ones_go_but_never_the_newest() {
        let jobs = ended(&[(0, 1), (5_000, 1), (9_000, 1)]);
        let gone = to_remove(&jobs, &config(6, 100), 11_000);
        assert_eq!(gone, [jobs[0].id.clone(), jobs[1].id.clone()]);
        assert_eq!(to_remove(&jobs, &config(1, 100), 1_000_000).len(), 2);
    }

    #[test]
    fn the_oldest_go_until_the_rest_fits() {
        let jobs = ended(&[(1, 50), (2, 30), (3, 30), (4, 500)]);
        assert_eq!(to_remove(&jobs, &config(1_000, 560), 5).len(), 1);
        assert_eq!(to_remove(&jobs, &config(1_000, 1), 5).len(), 3);
        assert!(to_remove(&jobs, &config(1_000, 1_000), 5).is_empty());
    }

    #[test]
    fn l31_a_clock_that_jumped_back_removes_nothing() {
        let jobs = ended(&[(10_000, 1), (20_000, 1)]);
        assert!(to_remove(&jobs, &config(6, 100), 5_000).is_empty());
    }
}
