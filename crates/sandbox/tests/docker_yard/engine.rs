//! An engine for tests: the one that `DOCKER_HOST` names, or a `dockerd` of the test's own on a private socket. Its images are
//! kept between tests, because loading one takes longer than a test; so one test at a time has it, and it ends with the test.

#![expect(clippy::disallowed_methods, reason = "what another process does is looked at until a deadline")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};

/// A busy machine needs seconds.
const ENGINE_PATIENCE: Duration = Duration::from_secs(60);

/// An engine and whoever must end it.
pub(crate) struct TestEngine {
    pub(crate) socket: PathBuf,
    home: PathBuf,
    daemon: Option<Child>,
    _lock: Option<File>,
}

impl TestEngine {
    /// The user's, or one of our own; or why there is none.
    pub(crate) fn find() -> Result<Self, String> {
        if let Some(socket) =
            std::env::var("DOCKER_HOST").ok().and_then(|host| Some(host.strip_prefix("unix://")?.into()))
        {
            return Ok(Self { socket, home: PathBuf::new(), daemon: None, _lock: None });
        }
        if !rustix::process::geteuid().is_root() {
            return Err("a private engine needs root; or name one with DOCKER_HOST".to_owned());
        }
        let home = cache().join("tests/docker");
        fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        let lock = File::create(home.join("lock")).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let mut engine = Self { socket: home.join("docker.sock"), home, daemon: None, _lock: Some(lock) };
        engine.start()?;
        engine.remove_containers();
        Ok(engine)
    }

    /// Whether the test may kill and restart it.
    pub(crate) fn is_ours(&self) -> bool {
        self.daemon.is_some()
    }

    /// Starts our own. It ends with this thread, should the test be killed.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let at = |name: &str| self.home.join(name).display().to_string();
        // What a killed one left would be taken for a running one, its containerd too.
        let containerd = self.home.join("exec/containerd/containerd.pid");
        let left = fs::read_to_string(&containerd).unwrap_or_default();
        let deadline = Instant::now() + ENGINE_PATIENCE;
        while !left.is_empty() && Path::new("/proc").join(left.trim()).exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = fs::remove_file(containerd);
        let _ = fs::remove_file(self.home.join("pid"));
        let _ = fs::remove_file(&self.socket);
        let log = File::create(self.home.join("log")).map_err(|error| error.to_string())?;
        let daemon = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "TERM",
                "--",
                "dockerd",
                "--bridge=none",
                "--iptables=false",
                "--ip6tables=false",
            ])
            .args(["--live-restore", "--log-level=warn"])
            .args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")])
            .args(["--host", &format!("unix://{}", self.socket.display())])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let mut daemon = daemon.map_err(|error| format!("start dockerd: {error}"))?;
        let deadline = Instant::now() + ENGINE_PATIENCE;
        // It listens before it answers.
        while self.ask(&["version"]).is_err() {
            if daemon.try_wait().unwrap().is_some() || Instant::now() >= deadline {
                let said = fs::read_to_string(self.home.join("log")).unwrap_or_default();
                return Err(format!(
                    "dockerd does not start here: {}",
                    said.lines().last().unwrap_or_default()
                ));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Removes what tests left, this one or one that was killed.
    pub(crate) fn remove_containers(&self) {
        let listed = self.ask(&["ps", "--all", "--quiet", "--filter", "label=dev.sandyard.yard"]);
        for id in listed.unwrap_or_default().lines() {
            let _ = self.ask(&["rm", "--force", id]);
        }
    }

    /// Kills our own in the middle of whatever it does. Containers go on.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Runs the engine's command line, which must succeed.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        self.ask(arguments).unwrap()
    }

    /// Runs the engine's command line; what it said against it is the error.
    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let host = format!("unix://{}", self.socket.display());
        let output = Command::new("docker").env("DOCKER_HOST", host).args(arguments).output().unwrap();
        let said = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(said(output.stdout)) } else { Err(said(output.stderr)) }
    }
}

impl Drop for TestEngine {
    fn drop(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        if let Some(pid) = Pid::from_raw(daemon.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = daemon.wait();
    }
}

/// Where images are kept.
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("SANDYARD_CACHE").unwrap_or_else(|| "/var/cache/sandyard".into()).into()
}
