//! Finds the job that a person means: by id, by the beginning of an id, or by name.

use sandyard_api::{JobId, JobIdPrefix, JobView};

use crate::client::{ApiClient, JobQuery};
use crate::errors::CommandError;
#[cfg(test)]
use crate::ui::short_id;

/// Jobs on one page of the list: the most that a server returns.
const PAGE: u64 = 1000;
/// Returns the id of the job. A whole id is not looked up: the call that uses it reports an unknown job. The server finds the
/// beginning of one; a name is looked for in the list.
pub(crate) async fn resolve(client: &ApiClient, given: &str) -> Result<String, CommandError> {
    if given.parse::<JobId>().is_ok() {
        return Ok(given.to_owned());
    }
    if JobIdPrefix::parse(given).is_some() {
        match client.status(given).await {
            Ok(view) => return Ok(view.job_id.as_str().to_owned()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
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

/// Returns the job with this name, if only one has it.
fn choose(given: &str, jobs: &[JobView]) -> Result<String, CommandError> {
    let named = jobs.iter().filter(|job| job.name.as_deref() == Some(given));
    let found: Vec<_> = named.map(|job| job.job_id.as_str().to_owned()).collect();
    match <[String; 1]>::try_from(found) {
        Ok([id]) => Ok(id),
        Err(found) if found.is_empty() => Err(CommandError::NoSuchJob(given.to_owned())),
        Err(found) => Err(CommandError::AmbiguousJob { given: given.to_owned(), found }),
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
    fn a_name_is_enough_and_nothing_and_too_much_are_errors() {
        let jobs = [job(1, Some("build")), job(2, Some("twin")), job(3, Some("twin")), job(0xff, None)];
        assert_eq!(choose("build", &jobs).unwrap(), jobs[0].job_id.as_str());
        let twins = choose("twin", &jobs).unwrap_err();
        assert!(twins.to_string().contains(short_id(jobs[2].job_id.as_str())), "{twins}");
        assert!(matches!(choose("other", &jobs), Err(CommandError::NoSuchJob(_))));
    }
}
