//! Two servers on one PostgreSQL database, each with a data folder of its own, on the same machines.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use sandyard_cluster::TestDatabase;
use sandyard_server::app::{JobState, NewJob};
use sandyard_server::config::{PostgresUrl, ServerConfig, StoreConfig};
use sandyard_testkit::{TestYard, shell};

/// Two servers, and their database. `None` if there is no PostgreSQL.
async fn two_servers(change: impl Fn(&mut ServerConfig)) -> Option<(TestYard, TestYard, TestDatabase)> {
    let database = TestDatabase::fresh()?;
    let url = PostgresUrl::parse(&database.url()).unwrap();
    let one = TestYard::with(|config| {
        config.store = StoreConfig::Postgres(url);
        change(config);
    })
    .await
    .unwrap();
    let other = one.beside().await.unwrap();
    Some((one, other, database))
}

/// A job that notes each time it runs, outside its workspace: the fake driver has no wall.
fn counted(notes: &Path, then: &str) -> NewJob {
    shell(&format!("echo ran >> {}; {then}", notes.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_posted_to_either_server_run_once() {
    let Some((one, other, _database)) = two_servers(|config| config.admission.concurrency = 4).await else {
        return;
    };
    let notes = tempfile::tempdir().unwrap();
    let mut jobs = Vec::new();
    for number in 0..24 {
        let file = notes.path().join(number.to_string());
        let server = if number % 2 == 0 { &one } else { &other };
        jobs.push((server.schedule(counted(&file, "true")).await.unwrap(), file));
    }
    for (id, file) in &jobs {
        // Asked of the server that did not accept it, as of the other.
        let (first, second) = (one.ended(id).await.unwrap(), other.ended(id).await.unwrap());
        assert_eq!((first.state, second.state), (JobState::Succeeded, JobState::Succeeded));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "ran\n");
    }
    assert_eq!(one.world.breaches(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_takes_over_the_job_of_one_that_was_killed_and_its_events_go_on() {
    let short = |config: &mut ServerConfig| {
        config.lease.ttl = Duration::from_secs(2);
        config.lease.heartbeat = Duration::from_millis(400);
    };
    let Some((one, other, _database)) = two_servers(short).await else { return };
    let notes = tempfile::tempdir().unwrap();
    let (file, gate) = (notes.path().join("ran"), notes.path().join("gate"));
    let job = counted(&file, &format!("while [ ! -e {} ]; do sleep 0.02; done; echo over", gate.display()));
    let id = one.schedule(job).await.unwrap();
    // Followed on the server that does not own it.
    let mut events = other.yard.events(&other.job(&id).await.unwrap(), 0).await.unwrap();
    one.wait(&id, "the job runs", |status| status.state == JobState::Running).await.unwrap();
    let mut ids = Vec::new();
    while !ids.contains(&3) {
        ids.push(events.next().await.unwrap().unwrap().id);
    }
    let _killed = one.crash();
    std::fs::write(&gate, "").unwrap();
    let ended = other.ended(&id).await.unwrap();
    assert_eq!(ended.state, JobState::Succeeded, "{ended:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "ran\n", "adopted, not run again");
    while let Some(event) = events.next().await {
        ids.push(event.unwrap().id);
    }
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>(), "a follower on another server sees no hole");
    assert_eq!(other.world.breaches(), Vec::<String>::new());
}
