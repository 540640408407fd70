//! `sandyard run` without a server: it serves the yard itself, on real sandboxes, and leaves nothing behind.
//!
//! Needs root and a built base image; says so and passes where it has neither.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]
#![expect(clippy::print_stdout, reason = "a test that can't run here says so")]

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const PATIENCE: Duration = Duration::from_secs(120);

/// A yard that nobody serves.
struct Unserved {
    data: TempDir,
}

impl Unserved {
    /// `None` where real sandboxes can't start.
    async fn new() -> Option<Self> {
        let yard = Self { data: tempfile::tempdir().unwrap() };
        let report = yard.command(&["doctor", "--json"]).output().await.unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        let drivers = report["drivers"].as_array().unwrap();
        let native = drivers.iter().any(|driver| driver["name"] == "native" && driver["usable"] == true);
        let usable = native && report["images"][0]["ready"] == true;
        if !usable {
            println!("skipped: needs a usable native driver and the base image");
        }
        usable.then_some(yard)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandyard"));
        command
            .args(arguments)
            .env("SANDYARD_DATA", self.data.path())
            // Jobs are admitted whatever the host has free: these use little of what they may.
            .env("SANDYARD_DISK_MIB", "1048576")
            // Whatever listens at the default address is not meant.
            .env("SANDYARD_URL", "local")
            .env_remove("SANDYARD_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn spawn(&self, code: &str) -> Child {
        self.command(&["run", "--kind", "shell", code]).spawn().unwrap()
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        ended(self.command(arguments).spawn().unwrap()).await
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.data.path().join(name)
    }

    fn is_clear(&self) -> bool {
        !self.path("sandyard.sock").exists() && is_empty(&self.path("sandboxes"))
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

async fn ended(child: Child) -> Output {
    tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("the command does not end").unwrap()
}

/// Waits for a level, with a deadline.
async fn until(what: &str, reached: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !reached() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn it_serves_itself_and_leaves_nothing_behind() {
    let Some(yard) = Unserved::new().await else { return };
    let result = yard.path("result");
    let said = yard
        .run(&["run", "--kind", "shell", "echo hi | tee f; exit 3", "--output", result.to_str().unwrap()])
        .await;
    assert_eq!(said.status.code(), Some(3), "{said:?}");
    assert_eq!(text(&said.stdout), "hi\n");
    assert_eq!(std::fs::read_to_string(result.join("f")).unwrap(), "hi\n");
    assert!(yard.is_clear(), "{}", text(&said.stderr));
}

#[tokio::test]
async fn a_second_run_uses_the_first_which_serves_until_both_have_ended() {
    let Some(yard) = Unserved::new().await else { return };
    let first = yard.spawn("echo first");
    until("the first serves", || yard.path("sandyard.sock").exists()).await;
    let second = yard.spawn("sleep 3; echo second");
    let (first, second) = tokio::join!(ended(first), ended(second));
    for (said, word) in [(&first, "first\n"), (&second, "second\n")] {
        assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(0), word), "{said:?}");
    }
    assert!(yard.is_clear(), "{}", text(&first.stderr));
}

#[tokio::test]
async fn a_job_that_is_left_goes_on_and_the_next_server_finishes_it() {
    let Some(yard) = Unserved::new().await else { return };
    let mut first = yard.spawn("sleep 2; echo done");
    let mut lines = BufReader::new(first.stderr.take().unwrap()).lines();
    let mut id = None;
    while let Some(line) = lines.next_line().await.unwrap() {
        id = id.or_else(|| line.strip_prefix("· job ").map(str::to_owned));
        if line == "· running" {
            break;
        }
    }
    let id = id.expect("the job's id is told");
    kill_process(Pid::from_raw(first.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let status = tokio::time::timeout(PATIENCE, first.wait()).await.expect("SIGTERM is ignored").unwrap();
    assert_eq!(status.code(), Some(130));

    // The second run serves the first job too, and ends when both jobs have ended.
    let second = yard.spawn("sleep 4");
    until("the second serves", || yard.path("sandyard.sock").exists()).await;
    let status = yard.run(&["status", "--wait", "--json", &id]).await;
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(
        (status["state"].as_str(), status["stdout"].as_str()),
        (Some("succeeded"), Some("done\n")),
        "{status}"
    );
    assert_eq!(ended(second).await.status.code(), Some(0));
    assert!(yard.is_clear());
}
