//! A yard whose model is a recording and whose machines are scripts.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use sandyard_protocol::{DeskReply, JournalEntry, TaskBudget};
use sandyard_sandbox::driver::Driver;
use sandyard_server::app::{CommittedEvent, FullJobStatus, JobAccess, NewJob, TaskOptions, WithOutput, Yard};
use sandyard_server::auth::{AccessScope, Caller};
use sandyard_server::config::{AdmissionConfig, ServerConfig};
use sandyard_server::job::JobId;
use sandyard_testkit::{Loop, OpenDesk, ReadyImages, ScriptedDriver, task};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Every wait of a test ends by then.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct TaskYard {
    pub(crate) yard: Yard,
    pub(crate) driver: Arc<ScriptedDriver>,
    config: ServerConfig,
    folder: Arc<TempDir>,
}

impl TaskYard {
    /// With a recording of these answers, each some words and perhaps one call of a tool.
    pub(crate) async fn new<F>(
        answers: &[(&str, Option<&str>)],
        script: impl Fn(Loop) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = i32> + Send + 'static,
    {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let path = folder.path().join("model.jsonl");
        recording(&path, answers);
        let mut config = ServerConfig::new(folder.path().join("yard"), 16 * 1024);
        config.admission = AdmissionConfig {
            disk_reserve_mib: 1,
            disk_mib: Some(1 << 30),
            reserve_mib: 0,
            ..config.admission
        };
        config.end_grace = Duration::from_millis(200);
        config.models.default = Some(format!("replay:{}", path.display()).parse().unwrap());
        Self::open(config, ScriptedDriver::new(script), folder).await
    }

    async fn open(config: ServerConfig, driver: Arc<ScriptedDriver>, folder: Arc<TempDir>) -> Self {
        let drivers: Vec<Arc<dyn Driver>> = vec![driver.clone()];
        let deadline = tokio::time::Instant::now() + DEADLINE;
        let yard = loop {
            match Yard::start(config.clone(), drivers.clone(), Arc::new(ReadyImages)).await {
                Ok(yard) => break yard,
                // The tasks of the dead server are still being dropped.
                Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        Self { yard, driver, config, folder }
    }

    /// The server dies, and another takes its place.
    pub(crate) async fn crash_and_restart(self) -> Self {
        let Self { yard, driver, config, folder } = self;
        drop(yard);
        Self::open(config, driver, folder).await
    }

    /// A job as the operator uses it.
    pub(crate) async fn job(&self, id: &JobId) -> JobAccess {
        self.yard.job(&Caller::operator(), id, AccessScope::ReadJobs).await.unwrap()
    }

    pub(crate) async fn schedule(&self, job: NewJob) -> JobId {
        self.yard.schedule(&Caller::operator(), job, None).await.unwrap().id
    }

    pub(crate) async fn wait(&self, id: &JobId, wanted: impl Fn(&FullJobStatus) -> bool) -> FullJobStatus {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let status = self.yard.status(&self.job(id).await, WithOutput::Tails).await.unwrap();
            if wanted(&status) {
                return FullJobStatus::clone(&status);
            }
            assert!(tokio::time::Instant::now() < deadline, "not in time: {status:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn ended(&self, id: &JobId) -> FullJobStatus {
        self.wait(id, |status| status.state.is_terminal()).await
    }

    /// Returns when the loop has written that many notes.
    pub(crate) async fn noted(&self, id: &JobId, count: usize) {
        let events = self.yard.events(&self.job(id).await, 0).await.unwrap().map(Result::unwrap);
        let noted = events.filter(|event| std::future::ready(event.kind == "note")).take(count).count();
        assert_eq!(tokio::time::timeout(DEADLINE, noted).await.unwrap(), count, "it ended before");
    }

    /// All events of an ended job of some kinds.
    pub(crate) async fn events(&self, id: &JobId, kinds: &[&str]) -> Vec<(String, Value)> {
        let events: Vec<CommittedEvent> =
            self.yard.events(&self.job(id).await, 0).await.unwrap().map(Result::unwrap).collect().await;
        let wanted = events.into_iter().filter(|event| kinds.contains(&event.kind.as_str()));
        wanted.map(|event| (event.kind, event.data)).collect()
    }
}

/// A recording as `--record` writes it, for the calls that scripts make.
fn recording(path: &std::path::Path, answers: &[(&str, Option<&str>)]) {
    // The hash of the standing part of `question()`.
    let template = template();
    let mut file = std::fs::File::create(path).unwrap();
    writeln!(file, "{}", json!({ "sandyard_recording": 1, "model": "openai/gpt-5" })).unwrap();
    for (index, (words, call)) in answers.iter().enumerate() {
        let mut events = vec![json!({ "event": "text", "text": words })];
        events.extend(call.map(|arguments| {
            json!({ "event": "call", "id": format!("call_{index}"), "name": "shell", "arguments": arguments })
        }));
        events.push(json!({
            "event": "done", "stop": if call.is_some() { "calls" } else { "end" },
            "usage": { "input": 100, "cached": 0, "output": 10 },
        }));
        writeln!(file, "{}", json!({ "turn": index + 1, "template": template, "events": events })).unwrap();
    }
}

/// As the server hashes it: the length and the text of the instructions; scripts offer no tools.
fn template() -> String {
    use sha2::{Digest, Sha256};
    let system = sandyard_testkit::question(1, None).system;
    let mut hash = Sha256::new();
    hash.update((system.len() as u64).to_le_bytes());
    hash.update(&system);
    hex::encode(hash.finalize())
}

/// Creates a task with these limits on its spending.
pub(crate) fn with_budget(budget: TaskBudget) -> NewJob {
    NewJob { task: TaskOptions { budget, ..TaskOptions::default() }, ..task("do it") }
}

/// The number that an entry was kept under.
pub(crate) async fn keep(desk: &mut OpenDesk, number: u64, entry: JournalEntry) -> u64 {
    match desk.append(number, entry).await.unwrap() {
        DeskReply::Appended { number } => number,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn finished(summary: &str) -> JournalEntry {
    JournalEntry::Finished { summary: summary.into() }
}

pub(crate) fn nudge(text: &str) -> JournalEntry {
    JournalEntry::Nudge { text: text.into() }
}
