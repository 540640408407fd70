//! Room for sandboxes: who waits for it and in which order, what statuses say about it, and who gives it back.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;

use sandyard_server::app::{
    ErrorCode, FullJobStatus, JobState, JobWait, NewJob, RequestedLimits, RoomShortage, SandboxState,
    WithOutput,
};
use sandyard_server::auth::Caller;
use sandyard_server::config::ServerConfig;
use sandyard_server::job::JobId;
use sandyard_testkit::{TestYard, session, shell};

fn with_memory(job: NewJob, memory_mib: u64) -> NewJob {
    NewJob { limits: RequestedLimits { memory_mib: Some(memory_mib), ..job.limits }, ..job }
}

/// A yard with 1,000 MiB for sandboxes.
async fn small_yard(change: impl FnOnce(&mut ServerConfig)) -> TestYard {
    TestYard::with(|config| {
        config.admission.memory_mib = 1000;
        config.greatest_limits.machine.memory_mib = 1000;
        change(config);
    })
    .await
    .unwrap()
}

async fn running(yard: &TestYard, job: NewJob) -> JobId {
    let id = yard.schedule(job).await.unwrap();
    yard.wait(&id, "running", |status| status.state == JobState::Running).await.unwrap();
    id
}

async fn state_of(yard: &TestYard, id: &JobId) -> JobState {
    yard.status(id, WithOutput::Without).await.unwrap().state
}

async fn waiting(yard: &TestYard, id: &JobId, wanted: impl Fn(&JobWait) -> bool) -> FullJobStatus {
    let waits = |status: &FullJobStatus| status.waiting_for.as_ref().is_some_and(&wanted);
    yard.wait(id, "what the job waits for", waits).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn small_jobs_fill_the_room_beside_a_large_one_that_waits() {
    let yard = small_yard(|_| {}).await;
    let holder = running(&yard, with_memory(session(), 700)).await;
    let large = yard.schedule(with_memory(shell("echo large"), 800)).await.unwrap();
    waiting(&yard, &large, |wait| {
        *wait == JobWait::Room(RoomShortage::Memory { needed_mib: 800, free_mib: 300, kept: 0 })
    })
    .await;
    for _ in 0..3 {
        let small = yard.run(with_memory(shell("echo small"), 200)).await.unwrap();
        assert_eq!(small.state, JobState::Succeeded);
    }
    assert_eq!(state_of(&yard, &large).await, JobState::Queued);
    yard.yard.cancel(&yard.job(&holder).await.unwrap()).await.unwrap();
    assert_eq!(yard.ended(&large).await.unwrap().state, JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_jobs_never_starve_a_large_one() {
    let yard = small_yard(|config| config.admission.patience = Duration::ZERO).await;
    let holder = running(&yard, with_memory(session(), 700)).await;
    let large = yard.schedule(with_memory(session(), 800)).await.unwrap();
    waiting(&yard, &large, |wait| matches!(wait, JobWait::Room(_))).await;
    let small = yard.schedule(with_memory(shell("echo small"), 200)).await.unwrap();
    let first = large.clone();
    waiting(&yard, &small, move |wait| *wait == JobWait::Turn(Some(first.clone()))).await;
    assert_eq!(state_of(&yard, &small).await, JobState::Queued);
    yard.yard.cancel(&yard.job(&holder).await.unwrap()).await.unwrap();
    yard.wait(&large, "running", |status| status.state == JobState::Running).await.unwrap();
    let small = yard.ended(&small).await.unwrap();
    assert_eq!((small.state, small.waiting_for), (JobState::Succeeded, None));
}

fn with_disk(job: NewJob, disk_mib: u64) -> NewJob {
    NewJob { limits: RequestedLimits { disk_mib: Some(disk_mib), memory_mib: Some(64), ..job.limits }, ..job }
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_a_job_waits_for_disk_space_and_one_that_could_never_have_it_is_refused() {
    let yard = small_yard(|config| config.admission.disk_mib = Some(1000)).await;
    let refused =
        yard.yard.schedule(&Caller::operator(), with_disk(session(), 1000), None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::LimitOutOfRange);
    assert!(refused.hint.is_some_and(|hint| hint.contains("ask for less")));
    let holder = running(&yard, with_disk(session(), 700)).await;
    let next = yard.schedule(with_disk(shell("echo next"), 600)).await.unwrap();
    let lacking = RoomShortage::DiskSpace { needed_mib: 616, free_mib: 284, most_mib: 1000, kept: 0 };
    waiting(&yard, &next, |wait| *wait == JobWait::Room(lacking)).await;
    assert_eq!(yard.run(with_disk(shell("echo small"), 100)).await.unwrap().state, JobState::Succeeded);
    // A job that names no size gets one that fits.
    let unsized_job = yard.schedule(with_memory(session(), 64)).await.unwrap();
    waiting(&yard, &unsized_job, |wait| matches!(wait, JobWait::Room(RoomShortage::DiskSpace { .. }))).await;
    yard.yard.cancel(&yard.job(&holder).await.unwrap()).await.unwrap();
    assert_eq!(yard.ended(&next).await.unwrap().state, JobState::Succeeded);
    yard.wait(&unsized_job, "running", |status| status.state == JobState::Running).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_an_ended_job_removes_its_kept_sandbox() {
    let yard = small_yard(|config| config.admission.concurrency = 1).await;
    let kept = yard.run(NewJob { keep: true, ..shell("echo kept > file") }).await.unwrap();
    assert_eq!((kept.state, kept.sandbox), (JobState::Succeeded, SandboxState::Live));
    assert_eq!(kept.sandbox_until_ms, kept.finished_at_ms.map(|finished| finished + 3_600_000));
    let next = yard.schedule(shell("echo next")).await.unwrap();
    waiting(&yard, &next, |wait| *wait == JobWait::Room(RoomShortage::Sandboxes { most: 1, kept: 1 })).await;
    yard.yard.cancel(&yard.job(&kept.id).await.unwrap()).await.unwrap();
    assert_eq!(yard.ended(&next).await.unwrap().state, JobState::Succeeded);
    let gone = yard.wait(&kept.id, "gone", |status| status.sandbox == SandboxState::Gone).await.unwrap();
    assert_eq!((gone.state, gone.sandbox_until_ms), (JobState::Succeeded, None));
    assert!(yard.download(&kept.id).await.unwrap().len() > 100, "the result stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_running_job_ends_its_sandbox_even_if_that_was_to_be_kept() {
    let yard = small_yard(|config| config.admission.concurrency = 1).await;
    let id = running(&yard, NewJob { keep: true, ..session() }).await;
    yard.yard.cancel(&yard.job(&id).await.unwrap()).await.unwrap();
    let gone = yard.wait(&id, "gone", |status| status.sandbox == SandboxState::Gone).await.unwrap();
    assert_eq!(gone.state, JobState::Cancelled);
    assert_eq!(yard.run(shell("echo next")).await.unwrap().state, JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_sandbox_goes_when_its_time_is_over_also_after_a_restart() {
    let yard = small_yard(|config| config.keep = Duration::from_secs(2)).await;
    let kept = yard.run(NewJob { keep: true, ..shell("true") }).await.unwrap();
    assert_eq!(kept.sandbox, SandboxState::Live);
    let yard = yard.crash().restart().await.unwrap();
    let gone = yard.wait(&kept.id, "gone", |status| status.sandbox == SandboxState::Gone).await.unwrap();
    assert_eq!(gone.state, JobState::Succeeded);
    yard.wait_world("the sandbox is gone", |world| world.markers().is_empty()).await.unwrap();
}
