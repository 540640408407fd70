//! Finds the job that a person means: by id, by the beginning of an id, or by name.

use sandyard_api::{JobId, JobView};

use crate::client::{ApiClient, JobQuery};
use crate::errors::CommandError;

/// Jobs on one page of the list: the most that a server returns.
const PAGE: u64 = 1000;
/// Shortest accepted beginning of an id: a shorter one is more likely a slip.
const SHORTEST_PREFIX: usize = 4;

/// Returns the id of the job. A whole id is not looked up: the call that uses it reports an unknown job.
pub(crate) async fn resolve(client: &ApiClient, given: &str) -> Result<String, CommandError> {
    if given.parse::<JobId>().is_ok() {
        return Ok(given.to_owned());
    }
    let jobs = every_job(client, JobQuery::default()).await?;
    choose(given, &jobs)
}

/// Returns the ids of several jobs.
pub(crate) async fn resolve_all(client: &ApiClient, given: &[String]) -> Result<Vec<String>, CommandError> {
    let mut ids = Vec::with_capacity(given.len());
    for text in given {
        ids.push(resolve(client, text).await?);
    }
    Ok(ids)
}

/// Returns every job, page by page.
pub(crate) async fn every_job(client: &ApiClient, mut query: JobQuery) -> Result<Vec<JobView>, CommandError> {
    query.limit = PAGE;
    let mut jobs = Vec::new();
    loop {
        let page = client.list(&query).await?;
        jobs.extend(page.jobs);
        match page.cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok(jobs),
        }
    }
}

fn choose(given: &str, jobs: &[JobView]) -> Result<String, CommandError> {
    let by_name = jobs.iter().filter(|job| job.name.as_deref() == Some(given));
    let named: Vec<_> = by_name.map(|job| job.job_id.as_str().to_owned()).collect();
    let found = if named.is_empty() && given.len() >= SHORTEST_PREFIX {
        let by_prefix = jobs.iter().filter(|job| job.job_id.as_str().starts_with(given));
        by_prefix.map(|job| job.job_id.as_str().to_owned()).collect()
    } else {
        named
    };
    match <[String; 1]>::try_from(found) {
        Ok([id]) => Ok(id),
        Err(found) if found.is_empty() => Err(CommandError::NoSuchJob(given.to_owned())),
        Err(found) => Err(CommandError::AmbiguousJob { given: given.to_owned(), count: found.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(seed: u8, name: Option<&str>) -> JobView {
        let id = JobId::from_random([seed; 16]);
        let json = serde_json::json!({
            "job_id": id, "name": name, "kind": "shell", "status": "complete", "state": "succeeded", "sandbox": "gone",
            "isolation": {"requested": "any"}, "created_at": "2026-01-31T08:15:00.250Z", "stdout": "", "stderr": "",
            "desktop_url": "", "lab_url": "",
            "usage": {"cpu_s": 0.0, "peak_memory_bytes": 0, "tokens_in": 0, "tokens_out": 0, "usd": 0.0, "egress_bytes": 0}
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_name_or_the_beginning_of_an_id_is_enough() {
        let jobs = [job(1, Some("build")), job(0xff, None)];
        assert_eq!(choose("build", &jobs).unwrap(), jobs[0].job_id.as_str());
        assert_eq!(choose(&jobs[1].job_id.as_str()[..6], &jobs).unwrap(), jobs[1].job_id.as_str());
    }

    #[test]
    fn nothing_and_too_much_are_errors() {
        let jobs = [job(1, Some("twin")), job(2, Some("twin"))];
        assert!(matches!(choose("twin", &jobs), Err(CommandError::AmbiguousJob { count: 2, .. })));
        assert!(matches!(choose("other", &jobs), Err(CommandError::NoSuchJob(_))));
        assert!(matches!(choose("a", &jobs), Err(CommandError::NoSuchJob(_))));
    }
}
