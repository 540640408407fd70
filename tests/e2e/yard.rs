//! A yard for one test: the server as a child process, and what a client asks of it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Longest wait for anything that should happen; a level is waited for, never an interval.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Yard {
    pub(crate) url: String,
    pub(crate) client: Client,
    data: TempDir,
    server: Option<Child>,
    driver: String,
    flags: Vec<String>,
    environment: Vec<(String, OsString)>,
}

impl Yard {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        Self::start_in(&std::env::temp_dir(), flags, &[]).await
    }

    /// With its data in that folder and these variables.
    pub(crate) async fn start_in(folder: &Path, flags: &[&str], environment: &[(&str, &Path)]) -> Self {
        let environment: Vec<_> = environment.iter().map(|(name, path)| (*name, path.as_os_str())).collect();
        Self::open("native", folder, flags, &environment).await
    }

    /// With that driver and these variables.
    pub(crate) async fn start_on(driver: &str, flags: &[&str], environment: &[(&str, &str)]) -> Self {
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| (*name, OsStr::new(*value))).collect();
        Self::open(driver, &std::env::temp_dir(), flags, &environment).await
    }

    async fn open(driver: &str, folder: &Path, flags: &[&str], environment: &[(&str, &OsStr)]) -> Self {
        // As the command does; another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let data = tempfile::Builder::new().prefix("yard-").tempdir_in(folder).unwrap();
        let mut yard = Self {
            url: String::new(),
            client: Client::builder().timeout(PATIENCE).build().unwrap(),
            data,
            server: None,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            driver: driver.to_owned(),
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        yard.serve().await;
        yard
    }

    /// Starts the server on the yard's data and waits for the line with its address.
    pub(crate) async fn serve(&mut self) {
        assert!(self.server.is_none(), "the server runs already");
        let log =
            File::options().create(true).append(true).open(self.data.path().join("server.log")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sandyard"))
            .args(["up", "--listen", "127.0.0.1:0", "--driver", &self.driver, "--data"])
            .arg(self.data.path())
            .args(&self.flags)
            .env("SANDYARD_IMAGES", "base")
            .envs(self.disk_promises())
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = tokio::time::timeout(PATIENCE, async {
            loop {
                let line = lines.next_line().await.unwrap().unwrap_or_else(|| panic!("{}", self.log()));
                if let Some(start) = line.find("http://") {
                    return line[start..].split_whitespace().next().unwrap().trim_end_matches('/').to_owned();
                }
            }
        });
        self.url = url.await.expect("the server did not say its address");
        // The pipe stays open, or the server's next line would end it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        self.server = Some(child);
    }

    /// On the host's own disk, jobs are admitted whatever other programs left free: few of them use what they may. A yard with a
    /// disk of its own is about disks, and counts.
    fn disk_promises(&self) -> Option<(&'static str, &'static str)> {
        let is_shared = self.data.path().parent() == Some(&std::env::temp_dir());
        is_shared.then_some(("SANDYARD_DISK_MIB", "1048576"))
    }

    /// Whether the server ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.server.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits until the server has ended by itself.
    pub(crate) async fn wait_ended(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() {
            assert!(Instant::now() < deadline, "the server goes on: {}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts the server after it ended by itself.
    pub(crate) async fn serve_again(&mut self) {
        assert!(self.has_ended());
        self.server = None;
        self.serve().await;
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server.as_ref().unwrap().id().unwrap()
    }

    pub(crate) fn signal_server(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.server_pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Kill -9, as a crash would.
    pub(crate) async fn crash(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().await.unwrap();
    }

    pub(crate) async fn crash_and_serve(&mut self) {
        self.crash().await;
        self.serve().await;
    }

    /// A polite stop, which must leave jobs running.
    pub(crate) async fn stop(&mut self) {
        self.signal_server(rustix::process::Signal::TERM);
        let mut server = self.server.take().unwrap();
        let status =
            tokio::time::timeout(PATIENCE, server.wait()).await.expect("SIGTERM was ignored").unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }

    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data.path().join("server.log")).unwrap_or_default()
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    pub(crate) async fn get_json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        let status = response.status();
        let body = response.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.client.post(format!("{}{path}", self.url)).json(body).send().await.unwrap()
    }

    pub(crate) async fn post_json(&self, path: &str, body: &Value) -> Value {
        let response = self.post(path, body).await;
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Schedules and returns the job's id.
    pub(crate) async fn schedule(&self, body: &Value) -> String {
        let answer = self.post_json("/schedule", body).await;
        assert_eq!(answer["status"], "pending", "{answer}");
        answer["job_id"].as_str().unwrap().to_owned()
    }

    /// Schedules where the server may refuse or be gone.
    pub(crate) async fn try_schedule(&self, body: &Value) -> Option<String> {
        let sent = self.client.post(format!("{}/schedule", self.url)).json(body).send().await;
        let response = sent.ok().filter(|response| response.status() == StatusCode::ACCEPTED)?;
        let answer: Value = response.json().await.ok()?;
        answer["job_id"].as_str().map(str::to_owned)
    }

    pub(crate) async fn shell_job(&self, code: &str) -> String {
        self.schedule(&json!({"kind": "shell", "code": code})).await
    }

    pub(crate) async fn run(&self, body: &Value) -> Value {
        let id = self.schedule(body).await;
        self.wait_end(&id).await
    }

    pub(crate) async fn run_shell(&self, code: &str) -> Value {
        self.run(&json!({"kind": "shell", "code": code})).await
    }

    pub(crate) async fn session(&self) -> String {
        let id = self.schedule(&json!({"kind": "session"})).await;
        self.wait_for(&id, |status| status["state"] == "running" && status["sandbox"] == "live").await;
        id
    }

    pub(crate) async fn status(&self, id: &str) -> Value {
        self.get_json(&format!("/status/{id}")).await
    }

    pub(crate) async fn wait_end(&self, id: &str) -> Value {
        self.wait_for(id, |status| is_terminal(&status["state"])).await
    }

    /// Waits for the end, but no longer than this.
    pub(crate) async fn wait_at_most(&self, id: &str, patience: Duration) -> Value {
        let deadline = Instant::now() + patience;
        loop {
            let status = self.get_json(&format!("/status/{id}?wait=5")).await;
            if is_terminal(&status["state"]) || Instant::now() > deadline {
                return status;
            }
        }
    }

    /// Waits until the job's status is as wanted.
    pub(crate) async fn wait_for(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.get_json(&format!("/status/{id}?wait=5")).await;
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "job {id} is stuck: {status}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn logs(&self, id: &str, stream: &str) -> String {
        self.get(&format!("/jobs/{id}/logs?stream={stream}")).await.text().await.unwrap()
    }

    pub(crate) async fn shell(&self, id: &str, command: &str) -> Value {
        self.post_json(&format!("/jobs/{id}/shell"), &json!({"command": command})).await
    }

    /// All events of an ended job: (id, name, data).
    pub(crate) async fn events(&self, id: &str) -> Vec<(u64, String, Value)> {
        let text = self.get(&format!("/jobs/{id}/events")).await.text().await.unwrap();
        parse_events(&text)
    }

    pub(crate) async fn download(&self, id: &str) -> Vec<u8> {
        let response = self.get(&format!("/jobs/{id}/download")).await;
        assert_eq!(response.status(), StatusCode::OK);
        response.bytes().await.unwrap().to_vec()
    }

    pub(crate) async fn delete(&self, id: &str) {
        let response = self.client.delete(format!("{}/jobs/{id}", self.url)).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.text().await.unwrap());
    }

    /// The mark of this yard in names of control groups.
    fn mark(&self) -> Option<String> {
        let directory = std::fs::metadata(self.data.path()).ok()?;
        let mut hash = Sha256::new();
        hash.update(std::fs::read(self.data.path().join("yard")).ok()?);
        hash.update(directory.dev().to_le_bytes());
        hash.update(directory.ino().to_le_bytes());
        let id: String = hash.finalize().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        Some(format!("sandyard-{id}"))
    }

    /// Processes of sandboxes, loop devices, mounts and control groups of this yard, by name. Blank disks in stock wait for
    /// the next sandbox and are nobody's.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(mark) = self.mark() {
            found.extend(sandbox_groups(&mark).iter().map(|group| format!("cgroup {}", group.display())));
            found.extend(sandbox_processes(&mark).iter().map(|pid| format!("process {pid}")));
        }
        let data = self.data.path().to_str().unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        found.extend(mounts.lines().filter(|line| line.contains(data)).map(|line| format!("mount {line}")));
        for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
            let backing = entry.path().join("loop/backing_file");
            if std::fs::read_to_string(backing)
                .is_ok_and(|file| file.contains(data) && !file.contains("/stock/"))
            {
                found.push(format!("loop device {}", entry.file_name().display()));
            }
        }
        found
    }

    /// Host pids of everything in this yard's sandboxes.
    pub(crate) fn sandbox_pids(&self) -> Vec<i32> {
        let mark = self.mark().unwrap();
        sandbox_processes(&mark).iter().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Waits until nothing of any sandbox is left.
    pub(crate) async fn expect_no_leftovers(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let left = self.leftovers();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind: {left:#?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Yard {
    #[expect(clippy::disallowed_methods, reason = "nothing can be awaited while a test's yard is dropped")]
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        if let Some(mut server) = self.server.take() {
            let _ = server.start_kill();
            // A server that is not dead yet may still start a machine, which would outlive the look below.
            while Instant::now() < deadline && matches!(server.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if let Some(mark) = self.mark() {
            while Instant::now() < deadline && !sandbox_groups(&mark).is_empty() {
                // Again in every round: a machine that the server had just forked enters its group by itself, a moment later.
                for group in sandbox_groups(&mark).iter().rev() {
                    kill_group(group);
                    let _ = std::fs::remove_dir(group);
                }
            }
            for root in group_roots(&mark) {
                let _ = std::fs::remove_dir(root);
            }
        }
        if std::thread::panicking() {
            eprintln!("--- server log ---\n{}", self.log());
        }
    }
}

pub(crate) fn is_terminal(state: &Value) -> bool {
    ["succeeded", "failed", "cancelled", "timed_out"].iter().any(|terminal| state == terminal)
}

pub(crate) fn parse_events(text: &str) -> Vec<(u64, String, Value)> {
    text.split("\n\n").filter_map(parse_event).collect()
}

fn parse_event(block: &str) -> Option<(u64, String, Value)> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let id = field("id:")?.parse().ok()?;
    let data = field("data:").and_then(|data| serde_json::from_str(data).ok()).unwrap_or(Value::Null);
    Some((id, field("event:")?.to_owned(), data))
}

fn group_roots(mark: &str) -> Vec<PathBuf> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
    std::iter::once(PathBuf::from("/sys/fs/cgroup"))
        .chain(hierarchies)
        .map(|root| root.join(mark))
        .filter(|root| root.is_dir())
        .collect()
}

/// Groups of sandboxes below the yard's own, parents before children. A slot in which a helper of the launcher waits for
/// the next sandbox is no sandbox's.
fn sandbox_groups(mark: &str) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    for slot in slots(mark) {
        for root in group_roots(mark).iter().map(|root| root.join(&slot)).filter(|root| root.is_dir()) {
            groups.push(root.clone());
            collect_groups(&root, &mut groups);
        }
    }
    groups
}

/// Names of the slots that are in use or abandoned.
fn slots(mark: &str) -> BTreeSet<OsString> {
    let roots = group_roots(mark);
    let entries = roots.iter().flat_map(|root| std::fs::read_dir(root).into_iter().flatten().flatten());
    let names: BTreeSet<_> =
        entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name()).collect();
    let parked = |name: &OsString| {
        let mut pids = roots.iter().flat_map(|root| pids_of(&root.join(name).join("job"))).peekable();
        pids.peek().is_some() && pids.all(|pid| is_launcher(&pid))
    };
    names.into_iter().filter(|name| !parked(name)).collect()
}

/// Kills all processes of a group. Version 1 has no file for that.
fn kill_group(group: &Path) {
    if std::fs::write(group.join("cgroup.kill"), "1").is_err() {
        let pids =
            pids_of(group).into_iter().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?));
        for pid in pids {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn pids_of(group: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn is_launcher(pid: &str) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).any(|argument| argument == b"native-launcher")
}

fn collect_groups(directory: &Path, groups: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            groups.push(entry.path());
            collect_groups(&entry.path(), groups);
        }
    }
}

fn sandbox_processes(mark: &str) -> Vec<String> {
    let mut pids: Vec<String> = sandbox_groups(mark).iter().flat_map(|group| pids_of(group)).collect();
    pids.retain(|pid| !is_launcher(pid));
    pids.sort();
    pids.dedup();
    pids
}
