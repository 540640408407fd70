//! An engine for tests: the one that `DOCKER_HOST` or `CONTAINER_HOST` names, or one of the test's own on a private socket. Its images
//! are kept between tests, because loading one takes longer than a test; so one test at a time has it, and it ends with the test.

#![expect(clippy::disallowed_methods, reason = "what another process does is looked at until a deadline")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};

/// A busy machine needs seconds.
const ENGINE_PATIENCE: Duration = Duration::from_secs(60);

/// Owner of the engine under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    Docker,
    Podman,
}

impl Make {
    fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// Names the user's own.
    fn variable(self) -> &'static str {
        match self {
            Self::Docker => "DOCKER_HOST",
            Self::Podman => "CONTAINER_HOST",
        }
    }

    /// The service in the foreground, with all that it keeps below `home`, on `socket`.
    fn service(self, home: &Path, socket: &Path) -> Vec<String> {
        let at = |name: &str| home.join(name).display().to_string();
        let host = format!("unix://{}", socket.display());
        let (words, own) = match self {
            Self::Docker => (
                "dockerd --bridge=none --iptables=false --ip6tables=false --live-restore --log-level=warn",
                vec![
                    ("--data-root", at("data")),
                    ("--exec-root", at("exec")),
                    ("--pidfile", at("pid")),
                    ("--host", host),
                ],
            ),
            Self::Podman => (
                "podman --cgroup-manager=cgroupfs --events-backend=file --runtime=runc --log-level=warn",
                vec![
                    ("--root", at("data")),
                    ("--runroot", at("run")),
                    ("--tmpdir", at("tmp")),
                    ("system", "service".to_owned()),
                    ("--time=0", host),
                ],
            ),
        };
        let words = words.split(' ').map(str::to_owned);
        words.chain(own.into_iter().flat_map(|(name, value)| [name.to_owned(), value])).collect()
    }
}

/// An engine, with its process if the test started it.
pub(crate) struct TestEngine {
    pub(crate) make: Make,
    pub(crate) socket: PathBuf,
    pub(crate) home: PathBuf,
    daemon: Option<Child>,
    _lock: Option<File>,
}

impl TestEngine {
    /// The user's, or one of our own; or why there is none.
    pub(crate) fn find(make: Make) -> Result<Self, String> {
        let named = std::env::var(make.variable()).ok();
        if let Some(socket) = named.and_then(|host| Some(host.strip_prefix("unix://")?.into())) {
            return Ok(Self { make, socket, home: PathBuf::new(), daemon: None, _lock: None });
        }
        if !rustix::process::geteuid().is_root() {
            return Err(format!("a private engine needs root; or name one with {}", make.variable()));
        }
        let home = cache().join("tests").join(make.name());
        fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        let lock = File::create(home.join("lock")).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let socket = home.join(format!("{}.sock", make.name()));
        let mut engine = Self { make, socket, home, daemon: None, _lock: Some(lock) };
        engine.start()?;
        engine.remove_containers();
        Ok(engine)
    }

    /// True if the test may kill and restart the engine.
    pub(crate) fn is_ours(&self) -> bool {
        self.daemon.is_some()
    }

    /// Starts our own. It ends with this thread, should the test be killed.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        self.forget_the_one_before();
        let log = File::create(self.home.join("log")).map_err(|error| error.to_string())?;
        let daemon = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .args(self.make.service(&self.home, &self.socket))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let name = self.make.name();
        let mut daemon = daemon.map_err(|error| format!("start {name}: {error}"))?;
        let deadline = Instant::now() + ENGINE_PATIENCE;
        // The engine listens before it answers.
        while self.ask(&["version"]).is_err() {
            if daemon.try_wait().unwrap().is_some() || Instant::now() >= deadline {
                let said = fs::read_to_string(self.home.join("log")).unwrap_or_default();
                let last = said.lines().last().unwrap_or_default().to_owned();
                return Err(format!("{name} does not start here: {last}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Removes pid files of a killed engine, which the next one, and its containerd, would take for a running
    /// one.
    fn forget_the_one_before(&self) {
        let containerd = self.home.join("exec/containerd/containerd.pid");
        let left = fs::read_to_string(&containerd).unwrap_or_default();
        let deadline = Instant::now() + ENGINE_PATIENCE;
        while !left.is_empty() && Path::new("/proc").join(left.trim()).exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        for path in [&containerd, &self.home.join("pid"), &self.socket] {
            let _ = fs::remove_file(path);
        }
    }

    /// Removes the remains of this test and of one that was killed.
    pub(crate) fn remove_containers(&self) {
        let listed = self.ask(&["ps", "--all", "--quiet", "--filter", "label=dev.sandyard.yard"]);
        for id in listed.unwrap_or_default().lines() {
            let _ = self.ask(&["rm", "--force", id]);
        }
    }

    /// Kills our own engine in the middle of its work. Containers go on.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Runs the engine's command line, which must succeed.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        self.ask(arguments).unwrap()
    }

    /// Runs Docker's command line, which Podman answers too. The error is its output.
    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let host = format!("unix://{}", self.socket.display());
        let output = Command::new("docker").env("DOCKER_HOST", host).args(arguments).output().unwrap();
        let said = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(said(output.stdout)) } else { Err(said(output.stderr)) }
    }

    /// Makes an empty image that has this label.
    pub(crate) fn make_image(&self, name: &str, label: &str) {
        let archive = self.home.join("empty.tar");
        // A tar of nothing: two empty blocks.
        fs::write(&archive, [0; 1024]).unwrap();
        let change = format!("LABEL {label}");
        self.command(&["import", "--change", &change, archive.to_str().unwrap(), name]);
    }
}

impl Drop for TestEngine {
    /// Ends the engine, and then the shims and monitors that outlived a killed one: nobody else knows them.
    fn drop(&mut self) {
        if self._lock.is_none() {
            return;
        }
        if let Some(mut daemon) = self.daemon.take() {
            if let Some(pid) = Pid::from_raw(daemon.id().cast_signed()) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = daemon.wait();
        }
        let deadline = Instant::now() + ENGINE_PATIENCE;
        loop {
            let left = attendants(&self.home);
            for pid in &left {
                let _ = kill_process(*pid, Signal::KILL);
            }
            if left.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes that stand beside containers of the engine whose folder this is. Each names it.
pub(crate) fn attendants(home: &Path) -> Vec<Pid> {
    let home = home.to_str().unwrap().as_bytes();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        ["containerd-shim", "conmon"].contains(&name.trim())
            && words.windows(home.len()).any(|part| part == home)
    };
    pids.filter(is_ours).filter_map(Pid::from_raw).collect()
}

/// Directory of the engine's images.
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("SANDYARD_CACHE").unwrap_or_else(|| "/var/cache/sandyard".into()).into()
}
