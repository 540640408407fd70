//! A data folder of an older server, opened by this one: nothing is lost, and sandboxes that live are adopted.
//!
//! `old_yard/` was left by a server of schema 5, before sandboxes had rows of their own: a task, a job that succeeded, one that
//! failed, and, because the server was killed, one that ran, one that was being started and one that was queued. Its live
//! sandboxes were named `<job>-1`. The test makes them again, as they were, before the new server starts.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rusqlite::Connection;
use sandyard_conformance::fake::{FakeDriver, FakeWorld};
use sandyard_pipe::HostOffer;
use sandyard_protocol::{BeginJob, JobWork, Secret};
use sandyard_sandbox::driver::{Driver, Limits, SandboxId, SandboxSpec};
use sandyard_sandbox::machine::Machine;
use sandyard_server::app::{FullJobStatus, JobAccess, JobState, WithOutput, Yard};
use sandyard_server::audit::{verify_lines, verify_zip};
use sandyard_server::auth::{AccessScope, Caller};
use sandyard_server::config::{AdmissionConfig, ServerConfig};
use sandyard_server::job::JobId;
use sandyard_testkit::ReadyImages;

/// Every wait of this test ends by then.
const DEADLINE: Duration = Duration::from_secs(30);

/// Script of the running job, which is in the old database too.
const RUNNING: &str = "echo one; touch printed; until [ -e go ]; do sleep 0.05; done; echo two";

struct OldYard {
    folder: tempfile::TempDir,
    world: Arc<FakeWorld>,
    driver: Arc<dyn Driver>,
    /// Ids of its jobs, by name.
    jobs: BTreeMap<String, JobId>,
}

impl OldYard {
    /// A copy of the folder.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old_yard");
        let data = folder.path().join("yard");
        copy(&source, &data);
        std::fs::remove_file(data.join("yard.sql")).unwrap();
        let key = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(data.join("audit.key"), key).unwrap();
        let database = Connection::open(data.join("yard.db")).unwrap();
        database.execute_batch(&std::fs::read_to_string(source.join("yard.sql")).unwrap()).unwrap();
        let mut jobs = database.prepare("SELECT name, id FROM jobs").unwrap();
        let jobs = jobs
            .query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
            .unwrap()
            .map(|job| job.map(|(name, id)| (name, JobId::parse(&id).unwrap())).unwrap())
            .collect();
        let world = FakeWorld::new(&folder.path().join("machines"));
        let driver = Arc::new(FakeDriver::new(Arc::clone(&world)));
        Self { folder, world, driver, jobs }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("yard")
    }

    fn files(&self, name: &str) -> PathBuf {
        self.data().join("jobs").join(self.jobs[name].as_str()).join("workspace/files")
    }

    /// Makes the sandbox that an old job had; returns its name and the epoch of its owner.
    async fn start(&self, name: &str) -> (SandboxSpec, u64) {
        let database = Connection::open(self.data().join("yard.db")).unwrap();
        let (secret, epoch) = database
            .query_row("SELECT secret, epoch FROM jobs WHERE name = ?1", [name], |row| {
                Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, i64>(1)?))
            })
            .unwrap();
        let spec = SandboxSpec {
            id: SandboxId::parse(&format!("{}-1", self.jobs[name])).unwrap(),
            image: sandyard_conformance::unread_image(),
            workspace: self.data().join("jobs").join(self.jobs[name].as_str()).join("workspace"),
            limits: Limits::default(),
            lifetime_s: 600,
            secret: Secret::new(secret),
        };
        self.driver.start(&spec).await.unwrap();
        (spec, u64::try_from(epoch).unwrap())
    }

    /// Makes the sandbox of the running job, which has come as far as the old server knows.
    async fn run(&self) {
        let (spec, epoch) = self.start("running").await;
        let _ = std::fs::remove_file(self.files("running").join("printed"));
        let sandbox = spec.id.as_str().to_owned();
        let offer = HostOffer { sandbox, secret: *spec.secret.expose(), epoch, unix_ms: 0 };
        let stream = self.driver.next_link(&spec.id).await.unwrap();
        let machine = Machine::over(sandyard_pipe::welcome(stream, offer).await.unwrap());
        let begin = BeginJob {
            work: JobWork::Shell { code: RUNNING.to_owned() },
            env: BTreeMap::new(),
            timeout_ms: 60_000,
            idle_timeout_ms: None,
            keep: false,
            trust: None,
        };
        machine.begin_job(begin).await.unwrap();
        until("the job has printed", || self.files("running").join("printed").exists()).await;
        machine.link().close();
    }

    async fn open(&self) -> Yard {
        let mut config = ServerConfig::new(self.data(), 16 * 1024);
        config.admission = AdmissionConfig {
            disk_reserve_mib: 1,
            disk_mib: Some(1 << 30),
            reserve_mib: 0,
            ..config.admission
        };
        Yard::start(config, vec![Arc::clone(&self.driver)], Arc::new(ReadyImages)).await.unwrap()
    }

    async fn ended(&self, yard: &Yard, name: &str) -> FullJobStatus {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        let job = job(yard, &self.jobs[name]).await;
        loop {
            let status = yard.status(&job, WithOutput::Tails).await.unwrap();
            if status.state.is_terminal() {
                return FullJobStatus::clone(&status);
            }
            assert!(tokio::time::Instant::now() < deadline, "{status:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

async fn until(what: &str, wanted: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !wanted() {
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn job(yard: &Yard, id: &JobId) -> JobAccess {
    yard.job(&Caller::operator(), id, AccessScope::ReadJobs).await.unwrap()
}

/// Checks the whole audit of a job, and that its events have no gap.
async fn check_records(yard: &Yard, id: &JobId) {
    let job = job(yard, id).await;
    let mut lines = yard.audit(&job, 0).await.unwrap().lines;
    let mut text = Vec::new();
    while let Some(part) = lines.next().await {
        text.extend_from_slice(&part.unwrap());
    }
    let verdict = verify_lines(&String::from_utf8(text).unwrap(), Some(yard.audit_key())).unwrap();
    assert!(verdict.faults.is_empty() && verdict.records > 0, "{verdict:?}");
    let events: Vec<_> = yard.events(&job, 0).await.unwrap().map(|event| event.unwrap().id).collect().await;
    assert_eq!(events, (1..=events.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_audits_journals_and_live_sandboxes_of_an_older_server_are_all_there() {
    let old = OldYard::new();
    old.run().await;
    old.start("starting").await;
    let stray = SandboxId::parse(&format!("{}-1", old.jobs["failed"])).unwrap();
    let (spec, _) = old.start("failed").await;
    assert_eq!((&spec.id, old.world.alive().len()), (&stray, 3), "a job that is over has a sandbox");
    let yard = old.open().await;
    assert!(!old.world.markers().contains(&stray), "a sandbox without a row is stopped");

    let succeeded = old.ended(&yard, "succeeded").await;
    assert_eq!((succeeded.state, succeeded.exit_code), (JobState::Succeeded, Some(0)));
    assert_eq!((&*succeeded.stdout_tail, &*succeeded.stderr_tail), ("given\n", "trouble\n"));
    let failed = old.ended(&yard, "failed").await;
    assert_eq!((failed.state, failed.exit_code, &*failed.stdout_tail), (JobState::Failed, Some(3), "lost\n"));
    let task = old.ended(&yard, "task").await;
    assert_eq!((task.summary.as_deref(), task.tokens_in), (Some("All **done**."), 100));
    for name in ["succeeded", "failed", "task"] {
        check_records(&yard, &old.jobs[name]).await;
        let zip = old.data().join("jobs").join(old.jobs[name].as_str()).join("output.zip");
        let verdict = verify_zip(std::fs::File::open(zip).unwrap(), Some(yard.audit_key())).unwrap();
        assert!(verdict.faults.is_empty(), "{name}: {verdict:?}");
    }
    let database = Connection::open(old.data().join("yard.db")).unwrap();
    let count = |query: &str| database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT COUNT(*) FROM journal"), 6);

    std::fs::write(old.files("running").join("go"), "").unwrap();
    let running = old.ended(&yard, "running").await;
    assert_eq!((running.state, &*running.stdout_tail), (JobState::Succeeded, "one\ntwo\n"), "{running:?}");
    assert!(yard.metrics(&Caller::operator()).unwrap().contains("sandyard_sandboxes_adopted_total 1\n"));
    let starting = old.ended(&yard, "starting").await;
    assert_eq!((starting.state, &*starting.stdout_tail), (JobState::Succeeded, "began\n"), "{starting:?}");
    let queued = old.ended(&yard, "queued").await;
    assert_eq!((queued.state, &*queued.stdout_tail), (JobState::Succeeded, "waited\n"), "{queued:?}");
    for name in ["running", "starting", "queued"] {
        check_records(&yard, &old.jobs[name]).await;
    }
    // Three were there before, and only the queued job got one from the new server.
    let started = old.world.started();
    assert_eq!(started.len(), 4, "{started:?}");
    assert!(old.jobs.values().all(|id| !started[3].as_str().contains(id.as_str())));
    until("no sandbox is left", || old.world.markers().is_empty()).await;
    until("no row of a sandbox is left", || count("SELECT COUNT(*) FROM sandboxes") == 0).await;
    assert_eq!(old.world.breaches(), Vec::<String>::new());
}
