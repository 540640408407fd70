//! Promises of the store that clients see: idempotency, one owner, retention, lists.

use std::io::Read;
use std::time::Duration;

use futures_util::StreamExt;
use sandyard_server::app::{
    ErrorCode, IdempotencyKey, JobFilter, JobState, RequestedLimits, StartYardError, WithOutput,
};
use sandyard_server::auth::Caller;
use sandyard_testkit::{TestYard, shell};

fn key(key: &str, body: u8) -> Option<IdempotencyKey> {
    Some(IdempotencyKey { key: key.into(), body_sha256: [body; 32] })
}

#[tokio::test(flavor = "multi_thread")]
async fn l8_the_same_key_gives_the_same_job_at_once_and_after_a_crash() {
    let yard = TestYard::new().await.unwrap();
    let mut posts = Vec::new();
    for _ in 0..100 {
        let facade = yard.yard.clone();
        posts.push(tokio::spawn(async move {
            facade.schedule(&Caller::operator(), shell("echo once"), key("k", 1)).await.unwrap()
        }));
    }
    let mut ids = Vec::new();
    for post in posts {
        ids.push(post.await.unwrap());
    }
    assert_eq!(ids.iter().filter(|answer| !answer.repeated).count(), 1);
    assert!(ids.iter().all(|answer| answer.id == ids[0].id));
    assert_eq!(std::fs::read_dir(yard.data().join("jobs")).unwrap().count(), 1, "repeats leave no folder");
    let other = yard.yard.schedule(&Caller::operator(), shell("echo other"), key("k", 2)).await.unwrap_err();
    assert_eq!(other.code, ErrorCode::IdempotencyKeyReused);
    let yard = yard.crash().restart().await.unwrap();
    let again = yard.yard.schedule(&Caller::operator(), shell("echo once"), key("k", 1)).await.unwrap();
    assert_eq!((&again.id, again.repeated), (&ids[0].id, true));
    yard.ended(&again.id).await.unwrap();
    assert_eq!(yard.world.breaches(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn l14_a_second_server_on_the_same_data_refuses() {
    let yard = TestYard::new().await.unwrap();
    let config = sandyard_server::config::ServerConfig::new(yard.data().to_owned(), 1024);
    let images: std::sync::Arc<dyn sandyard_server::app::Images> = std::sync::Arc::new(NoImages);
    let half_written = yard.data().join("scratch/archive");
    std::fs::write(&half_written, "of the first server").unwrap();
    let second = sandyard_server::app::Yard::start(config, Vec::new(), images).await;
    assert!(matches!(second, Err(StartYardError::Held { .. })));
    assert!(half_written.exists(), "a refused server touches no file of the first");
}

struct NoImages;

impl sandyard_server::app::Images for NoImages {
    fn state(&self, _: sandyard_server::app::ImageFlavour) -> sandyard_server::app::ImageState {
        sandyard_server::app::ImageState::Missing { detail: "none".into(), hint: "none".into() }
    }

    fn changed<'a: 'b, 'b>(&'a self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'b>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l31_retention_removes_the_oldest_and_an_open_download_finishes() {
    let yard = TestYard::with(|config| {
        config.retention.bytes = 1;
        config.retention.interval = Duration::from_millis(300);
    })
    .await
    .unwrap();
    let old = yard.run(shell("head -c 100000 /dev/urandom > big")).await.unwrap();
    let download = yard.yard.download(&yard.job(&old.id).await.unwrap()).await.unwrap();
    let length = download.length;
    let mut stream = download.read(0, length).await.unwrap();
    let new = yard.run(shell("echo new > new")).await.unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while yard.status(&old.id, WithOutput::Without).await.is_ok() || yard.job_folder(&old.id).exists() {
        assert!(tokio::time::Instant::now() < deadline, "the old job was not removed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut read = 0;
    while let Some(piece) = stream.next().await {
        read += piece.unwrap().len() as u64;
    }
    assert_eq!(read, length);
    assert!(yard.yard.download(&yard.job(&new.id).await.unwrap()).await.is_ok(), "the newest stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_newest_first_and_filtered() {
    let yard = TestYard::new().await.unwrap();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(yard.run(shell(&format!("exit {}", number % 2))).await.unwrap().id);
    }
    ids.reverse();
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page =
            yard.yard.list(&Caller::operator(), &JobFilter::default(), 2, cursor.as_deref()).await.unwrap();
        seen.extend(page.jobs.into_iter().map(|job| job.id));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids);
    let failed = JobFilter { states: vec![JobState::Failed], kind: None };
    assert_eq!(yard.yard.list(&Caller::operator(), &failed, 10, None).await.unwrap().jobs.len(), 2);
    assert_eq!(
        yard.yard.list(&Caller::operator(), &failed, 10, Some("x")).await.unwrap_err().code,
        ErrorCode::InvalidCursor
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_leaves_nothing_behind() {
    let yard = TestYard::with(|config| config.admission.queue = 0).await.unwrap();
    let limits = RequestedLimits { memory_mib: Some(1 << 40), ..RequestedLimits::default() };
    let mut job = shell("echo hi");
    job.limits = limits;
    assert_eq!(
        yard.yard.schedule(&Caller::operator(), job, None).await.unwrap_err().code,
        ErrorCode::LimitOutOfRange
    );
    let mut job = shell("echo hi");
    job.isolation = sandyard_server::app::Floor::Driver("firecracker".into());
    assert_eq!(
        yard.yard.schedule(&Caller::operator(), job, None).await.unwrap_err().code,
        ErrorCode::NoDriver
    );
    assert_eq!(std::fs::read_dir(yard.data().join("jobs")).unwrap().count(), 0);
    assert!(yard.world.started().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_a_full_queue_refuses_with_a_time_to_come_back() {
    let yard = TestYard::with(|config| {
        config.admission.queue = 2;
        config.admission.concurrency = 1;
    })
    .await
    .unwrap();
    let mut refused = None;
    for _ in 0..4 {
        if let Err(error) = yard.yard.schedule(&Caller::operator(), shell("sleep 5"), None).await {
            refused = Some(error);
        }
    }
    let refused = refused.expect("the fourth is refused");
    assert_eq!(refused.code, ErrorCode::QueueFull);
    assert!(refused.retry_after_s.is_some());
    assert_eq!(std::fs::read_dir(yard.data().join("jobs")).unwrap().count(), 3);
}

/// Another program that holds the database until its input is closed.
fn hold(database: &std::path::Path) -> std::io::Result<std::process::Child> {
    let script = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1])\nc.execute('BEGIN IMMEDIATE')\nprint('held',flush=True)\n\
                  sys.stdin.read()";
    let mut holder = std::process::Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(database)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let mut held = [0; 5];
    if let Some(output) = holder.stdout.as_mut() {
        output.read_exact(&mut held)?;
    }
    Ok(holder)
}

#[tokio::test(flavor = "multi_thread")]
async fn l11_a_locked_database_refuses_for_a_while_and_running_jobs_go_on() {
    let yard = TestYard::new().await.unwrap();
    let running =
        yard.schedule(shell("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done")).await.unwrap();
    yard.wait(&running, "some output", |status| !status.stdout_tail.is_empty()).await.unwrap();
    let mut holder = hold(&yard.data().join("yard.db")).unwrap();
    assert!(yard.status(&running, WithOutput::Tails).await.is_ok(), "reads go on");
    let refused = yard.yard.schedule(&Caller::operator(), shell("echo late"), None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(yard.run(shell("echo again")).await.unwrap().state, JobState::Succeeded);
    let status = yard.ended(&running).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    assert_eq!(status.stdout_tail, "1\n2\n3\n4\n5\n6\n7\n8\n");
    assert_eq!(std::fs::read_dir(yard.data().join("jobs")).unwrap().count(), 2, "a refusal leaves no folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_a_cancel_that_can_not_be_recorded_ends_the_machine_first() {
    let yard = TestYard::new().await.unwrap();
    let id = yard.schedule(shell("sleep 1000")).await.unwrap();
    yard.wait(&id, "running", |status| status.state == JobState::Running).await.unwrap();
    let job = yard.job(&id).await.unwrap();
    let mut holder = hold(&yard.data().join("yard.db")).unwrap();
    let refused = yard.yard.cancel(&job).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    assert!(refused.message.contains("is ended"), "{refused}");
    yard.wait_world("the machine is dead", |world| world.alive().is_empty()).await.unwrap();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    // What could not be written then is written as soon as that works, without another request.
    let status = yard.ended(&id).await.unwrap();
    assert_eq!((status.state, status.reason.as_deref()), (JobState::Cancelled, Some("cancelled by request")));
}
