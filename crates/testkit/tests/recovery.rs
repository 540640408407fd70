//! Crashes, faults and races: every job reaches one last state, runs at most once, and leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandyard_protocol::OutputStream;
use sandyard_server::app::{FailureCode, FullJobStatus, InputFile, JobState, NewJob, SandboxState};
use sandyard_server::auth::Caller;
use sandyard_server::fail_points::FailPoints;
use sandyard_server::job::JobId;
use sandyard_testkit::{TestYard, session, shell};

/// A job that notes each time it runs, outside its workspace: the fake driver has no wall.
fn counted(notes: &Path, then: &str) -> NewJob {
    shell(&format!("echo ran >> {}; {then}", notes.display()))
}

fn runs(notes: &Path) -> usize {
    std::fs::read_to_string(notes).map_or(0, |text| text.lines().count())
}

/// Checks the invariants of a job: one last state, events without a gap, no machine left.
async fn check_invariants(yard: &TestYard, id: &JobId) -> FullJobStatus {
    let status = yard.ended(id).await.unwrap();
    let events = yard.events(id, 0).await.unwrap();
    let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>(), "ids have no gap");
    let last_states = events
        .iter()
        .filter(|event| event.kind == "state")
        .filter_map(|event| JobState::parse(event.data["state"].as_str()?))
        .filter(|state| state.is_terminal())
        .count();
    assert_eq!(last_states, 1, "one last state: {events:?}");
    yard.wait_world("no machine of the job is left", |world| {
        let had = yard.sandboxes(id);
        world.markers().iter().all(|sandbox| !had.contains(sandbox))
    })
    .await
    .unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while sandbox_rows(yard.data(), id) > 0 {
        assert!(tokio::time::Instant::now() < deadline, "a job that is over keeps the row of a sandbox");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(yard.world.breaches(), Vec::<String>::new());
    status
}

/// Rows of sandboxes that name a job.
fn sandbox_rows(data: &Path, id: &JobId) -> i64 {
    let database = rusqlite::Connection::open(data.join("yard.db")).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    let query = "SELECT COUNT(*) FROM sandboxes WHERE job = ?1";
    database.query_row(query, [id.as_str()], |row| row.get(0)).unwrap()
}

/// Dies the first time a place is reached, and tells.
fn dies_at(place: &'static str) -> (FailPoints, Arc<AtomicBool>) {
    let hit = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&hit);
    let points = FailPoints::with(move |reached| reached == place && !told.swap(true, Ordering::SeqCst));
    (points, hit)
}

async fn until(hit: &AtomicBool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !hit.load(Ordering::SeqCst) {
        assert!(tokio::time::Instant::now() < deadline, "the place was never reached");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_a_server_that_dies_at_any_edge_loses_nothing() {
    let notes = tempfile::tempdir().unwrap();
    for place in [
        "start",
        "started",
        "written",
        "linked",
        "begun",
        "committed",
        "finishing",
        "exported",
        "closing",
        "stopped",
    ] {
        let notes = notes.path().join(place);
        let (points, hit) = dies_at(place);
        let yard = TestYard::with(|config| config.fail_points = points).await.unwrap();
        let job = counted(&notes, "cat given; sleep 0.1; echo kept > file");
        let files = vec![InputFile { path: "given".into(), bytes: b"out\n".to_vec() }];
        let id = yard.schedule(NewJob { files, ..job }).await.unwrap();
        until(&hit).await;
        let yard = yard.crash().reconfigured(|config| config.fail_points = FailPoints::default());
        let yard = yard.restart().await.unwrap();
        let status = check_invariants(&yard, &id).await;
        assert_eq!(status.state, JobState::Succeeded, "died at {place}: {status:?}");
        assert_eq!(status.stdout_tail, "out\n", "died at {place}");
        assert_eq!(runs(&notes), 1, "died at {place}");
        assert!(
            yard.yard.download(&yard.job(&id).await.unwrap()).await.unwrap().length > 100,
            "died at {place}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l22_a_deletion_that_was_interrupted_is_finished() {
    let (points, hit) = dies_at("deleting");
    let yard = TestYard::with(|config| config.fail_points = points).await.unwrap();
    let status = yard.run(shell("echo hi")).await.unwrap();
    let folder = yard.job_folder(&status.id);
    let facade = yard.yard.clone();
    let job = yard.job(&status.id).await.unwrap();
    let deletion = tokio::spawn(async move { facade.delete(&job).await });
    until(&hit).await;
    deletion.abort();
    let _ = deletion.await;
    assert!(folder.exists());
    let yard = yard
        .crash()
        .reconfigured(|config| config.fail_points = FailPoints::default())
        .restart()
        .await
        .unwrap();
    assert!(yard.events(&status.id, 0).await.is_err(), "a deleted job is unknown");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while folder.exists() {
        assert!(tokio::time::Instant::now() < deadline, "the folder was not removed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_a_server_that_is_killed_again_and_again_loses_nothing() {
    let notes = tempfile::tempdir().unwrap();
    let mut yard = TestYard::new().await.unwrap();
    let mut jobs = Vec::new();
    for round in 0..10u64 {
        for number in 0..3 {
            let notes = notes.path().join(format!("{round}-{number}"));
            let code =
                format!("for i in 1 2 3 4; do echo {number} $i; sleep 0.0{}; done", (round * 7 + number) % 9);
            jobs.push((yard.schedule(counted(&notes, &code)).await.unwrap(), notes, number));
        }
        tokio::time::sleep(Duration::from_millis((round * 37) % 101)).await;
        yard = yard.crash().restart().await.unwrap();
    }
    for (id, notes, number) in &jobs {
        let status = check_invariants(&yard, id).await;
        assert_eq!(status.state, JobState::Succeeded, "{status:?}");
        assert_eq!(runs(notes), 1);
        assert_eq!(status.stdout_tail, format!("{number} 1\n{number} 2\n{number} 3\n{number} 4\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l25_a_stopped_server_leaves_jobs_running_and_the_next_adopts_them() {
    let notes = tempfile::tempdir().unwrap();
    let notes = notes.path().join("notes");
    let yard = TestYard::new().await.unwrap();
    let id =
        yard.schedule(counted(&notes, "echo one; sleep 0.4; echo two; sleep 0.4; echo three")).await.unwrap();
    yard.wait(&id, "some output", |status| !status.stdout_tail.is_empty()).await.unwrap();
    let stopped = yard.stop().await;
    assert_eq!(stopped.world.alive().len(), 1);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let yard = stopped.restart().await.unwrap();
    let status = check_invariants(&yard, &id).await;
    assert_eq!((status.state, status.stdout_tail.as_str()), (JobState::Succeeded, "one\ntwo\nthree\n"));
    assert_eq!(runs(&notes), 1);
    assert!(yard.yard.metrics(&Caller::operator()).unwrap().contains("sandyard_sandboxes_adopted_total 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn l4_a_lease_that_ran_out_is_taken_anew_and_the_job_goes_on() {
    let notes = tempfile::tempdir().unwrap();
    let notes = notes.path().join("notes");
    let yard = TestYard::with(|config| {
        config.lease.ttl = Duration::from_millis(100);
        config.lease.heartbeat = Duration::from_millis(250);
    })
    .await
    .unwrap();
    let code = "for i in $(seq 20); do echo $i; sleep 0.05; done";
    let id = yard.schedule(counted(&notes, code)).await.unwrap();
    let status = check_invariants(&yard, &id).await;
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    assert_eq!(status.stdout_tail.lines().count(), 20);
    assert_eq!(runs(&notes), 1);
    assert!(
        !yard.yard.metrics(&Caller::operator()).unwrap().contains("sandyard_leases_lost_total 0\n"),
        "no lease was lost"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_dies_fails_its_job_and_keeps_its_workspace() {
    let notes = tempfile::tempdir().unwrap();
    let notes = notes.path().join("notes");
    let yard = TestYard::new().await.unwrap();
    let id = yard.schedule(counted(&notes, "echo saved > work.txt; echo working; sleep 60")).await.unwrap();
    yard.wait(&id, "working", |status| status.stdout_tail == "working\n").await.unwrap();
    yard.world.kill(&yard.sandboxes(&id)[0]).await;
    let status = check_invariants(&yard, &id).await;
    assert_eq!(status.state, JobState::Failed);
    assert_eq!(status.error.unwrap().code, FailureCode::SandboxDied);
    assert_eq!(runs(&notes), 1, "it never ran twice");
    let had = yard.sandboxes(&id);
    assert_eq!((had.len(), &had), (2, &yard.world.started()), "the second one took the workspace out");
    assert!(had.iter().all(|sandbox| !sandbox.as_str().contains(id.as_str())));
    let zip = yard.job_folder(&id).join("output.zip");
    assert!(std::fs::read(zip).unwrap().windows(8).any(|window| window == b"work.txt"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_keeper_loses_nothing() {
    let notes = tempfile::tempdir().unwrap();
    let notes = notes.path().join("notes");
    let yard = TestYard::new().await.unwrap();
    let code = "for i in $(seq 30); do echo $i; sleep 0.03; done";
    let id = yard.schedule(counted(&notes, code)).await.unwrap();
    yard.wait(&id, "some output", |status| status.stdout_tail.lines().count() > 5).await.unwrap();
    yard.world.kill_keeper(&yard.sandboxes(&id)[0]).await;
    let status = check_invariants(&yard, &id).await;
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    let expected: String = (1..=30).map(|number| format!("{number}\n")).collect();
    assert_eq!(status.stdout_tail, expected);
    assert_eq!(runs(&notes), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn l30_links_that_break_all_the_time_lose_no_byte_and_repeat_none() {
    let yard = TestYard::new().await.unwrap();
    yard.world.script(|faults| faults.link_bytes = Some(150_000));
    let status = yard.run(shell("seq 1 60000")).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    let log = yard.log(&status.id, OutputStream::Stdout).await.unwrap();
    let expected: String = (1..=60000).map(|number| format!("{number}\n")).collect();
    assert_eq!(log, expected.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn l26_a_machine_that_never_starts_is_given_up_and_one_that_starts_late_is_not() {
    let yard = TestYard::new().await.unwrap();
    yard.world.script(|faults| faults.failing_starts = 2);
    let late = yard.run(shell("echo hi")).await.unwrap();
    assert_eq!(late.state, JobState::Succeeded);
    yard.world.script(|faults| faults.failing_starts = 1000);
    let never = yard.run(shell("echo hi")).await.unwrap();
    assert_eq!(never.state, JobState::Failed);
    assert_eq!(never.error.unwrap().code, FailureCode::SandboxStartFailed);
    assert!(
        yard.yard.download(&yard.job(&never.id).await.unwrap()).await.is_ok(),
        "an ended job has a download"
    );
    yard.world.script(|faults| {
        faults.failing_starts = 0;
        faults.full_starts = 2;
    });
    let full = yard.run(shell("echo hi")).await.unwrap();
    assert_eq!(full.state, JobState::Succeeded);
    yard.world.script(|faults| faults.refused_stops = 3);
    let status = yard.run(shell("echo hi")).await.unwrap();
    check_invariants(&yard, &status.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l9_a_cancel_at_any_moment_gives_one_last_state() {
    let yard = TestYard::new().await.unwrap();
    for jitter in 0..24u64 {
        let id = yard.schedule(shell("echo a; sleep 0.02; echo b > b")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(jitter * 3)).await;
        yard.yard.cancel(&yard.job(&id).await.unwrap()).await.unwrap();
        yard.yard.cancel(&yard.job(&id).await.unwrap()).await.unwrap();
        let status = check_invariants(&yard, &id).await;
        assert!(matches!(status.state, JobState::Cancelled | JobState::Succeeded), "{status:?}");
        assert!(yard.yard.download(&yard.job(&id).await.unwrap()).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_job_that_ignores_sigterm_is_killed_and_keeps_its_work() {
    let yard = TestYard::new().await.unwrap();
    let id = yard
        .schedule(shell("trap '' TERM; echo kept > kept; echo up; while :; do sleep 0.1; done"))
        .await
        .unwrap();
    yard.wait(&id, "up", |status| status.stdout_tail == "up\n").await.unwrap();
    yard.yard.cancel(&yard.job(&id).await.unwrap()).await.unwrap();
    let status = check_invariants(&yard, &id).await;
    assert_eq!(status.state, JobState::Cancelled, "{status:?}");
    let zip = std::fs::read(yard.job_folder(&id).join("output.zip")).unwrap();
    assert!(zip.windows(4).any(|window| window == b"kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_their_turn_and_a_waiting_one_can_be_cancelled_or_deleted() {
    let yard = TestYard::with(|config| config.admission.concurrency = 1).await.unwrap();
    let first = yard.schedule(shell("sleep 0.3")).await.unwrap();
    let second = yard.schedule(shell("echo second")).await.unwrap();
    let third = yard.schedule(shell("echo third")).await.unwrap();
    let fourth = yard.schedule(shell("echo fourth")).await.unwrap();
    let cancelled = yard.yard.cancel(&yard.job(&third).await.unwrap()).await.unwrap();
    assert_eq!((cancelled.state, cancelled.sandbox), (JobState::Cancelled, SandboxState::None));
    let zip = yard.download(&third).await.unwrap();
    assert!(zip.windows(11).any(|window| window == b"audit.jsonl"), "a job that never ran has its audit");
    yard.yard.delete(&yard.job(&fourth).await.unwrap()).await.unwrap();
    let second = yard.ended(&second).await.unwrap();
    assert_eq!(second.state, JobState::Succeeded);
    assert!(yard.ended(&first).await.unwrap().finished_at_ms <= second.started_at_ms);
    assert_eq!(yard.world.started().len(), 2, "what never started had no machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_can_be_deleted_in_any_state() {
    let yard = TestYard::new().await.unwrap();
    for jitter in [0u64, 2, 5, 10, 20, 40, 80] {
        let id = yard
            .schedule(if jitter % 4 == 0 { session() } else { shell("echo a; sleep 0.03") })
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(jitter)).await;
        yard.yard.delete(&yard.job(&id).await.unwrap()).await.unwrap();
        assert!(yard.yard.delete(&yard.job(&id).await.unwrap()).await.is_err());
        assert!(!yard.job_folder(&id).exists(), "deleted after {jitter} ms");
        assert!(yard.world.markers().is_empty(), "deleted after {jitter} ms");
    }
    assert_eq!(yard.world.breaches(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_driver_was_away_is_stopped_when_the_driver_is_back() {
    let first = TestYard::new().await.unwrap();
    let id = first.schedule(NewJob { keep: true, ..session() }).await.unwrap();
    first.wait(&id, "live", |status| status.sandbox == SandboxState::Live).await.unwrap();
    let without = first.stop().await.without_drivers().restart().await.unwrap();
    let status = without.ended(&id).await.unwrap();
    assert_eq!(status.error.unwrap().code, FailureCode::NoDriver);
    let rows = |yard: &TestYard| {
        let database = rusqlite::Connection::open(yard.data().join("yard.db")).unwrap();
        let query = "SELECT COUNT(*) FROM sandboxes WHERE phase = 'leaving' AND job IS NULL";
        database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while rows(&without) == 0 {
        assert!(tokio::time::Instant::now() < deadline, "nobody remembers the sandbox");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(without.world.alive().len(), 1, "nobody could stop it");
    let back = without.crash().with_fake_driver().restart().await.unwrap();
    assert!(back.world.markers().is_empty());
    assert_eq!(rows(&back), 0);
}
