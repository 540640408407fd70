//! A machine in namespaces of its own, made by `enter.sh`, with the test as keeper and init. Needs root.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's support may fail the test")]

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as HostCommand, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};
use sandyard_guest::init::{HeldStreams, KeeperTurn};
use sandyard_guest::process_host::{Command, ProcessHost as _, RawExit, SpawnError, Spawned};
use sandyard_guest::spawner::client::SpawnerClient;
use sandyard_protocol::{
    BootConfig, LinkTarget, MachineSize, ProcessId, Secret, SpawnerSource, TerminalSize,
};
use tempfile::TempDir;

/// Longest wait for anything in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A spawner in a machine, and the client that a keeper would use.
pub(crate) struct Machine {
    machine: Launched,
    pub(crate) client: SpawnerClient,
    socket: OwnedFd,
    held: Arc<Mutex<HeldStreams>>,
    ids: std::cell::Cell<u32>,
}

/// What a finished command said and how it ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: RawExit,
}

/// Why these tests can't run here, if so.
pub(crate) fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    let probe = HostCommand::new("unshare").args(["-mpniu", "--fork", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return Some("needs unshare(1) and leave to make namespaces".into());
    }
    None
}

pub(crate) fn config() -> BootConfig {
    BootConfig {
        secret: Secret::new([7; 32]),
        link: LinkTarget::UnixSocket { path: "/run/sandyard/link".into() },
        agent_id: 1000,
        keeper_id: 1001,
        spawner: SpawnerSource::Fork { cgroup_procs: Vec::new() },
        agent_program: None,
        engine: None,
        spool: "/run/keeper".into(),
        hidden: vec!["/run/sandyard".into(), "/run/keeper".into(), "/mnt".into()],
        writable: ["/workspace", "/home/agent", "/tmp", "/dev/shm", "/run/user/1000"].map(Into::into).into(),
        open_files: 512,
        lifetime_s: 120,
        boot_time_s: 0,
        size: Some(MachineSize { cpu_quota_us: 50_000, memory_bytes: 512 << 20, pids: 64 }),
    }
}

impl Machine {
    /// Starts a spawner and connects to it.
    pub(crate) async fn start(config: &BootConfig) -> Self {
        let (ours, theirs) = pair();
        let machine = launch("spawner", config, Some(&theirs));
        drop(theirs);
        let socket = ours.try_clone().unwrap();
        let held = Arc::default();
        let client = SpawnerClient::connect(ours, holding_init(&held), 1).await.unwrap();
        Self { machine, client, socket, held, ids: 0.into() }
    }

    /// Does what init does after keeper's death: gives the same sockets to another.
    pub(crate) async fn restart_keeper(self) -> Self {
        let Self { machine, client, socket, held, ids } = self;
        drop(client);
        // The old reader stops at its next turn.
        tokio::task::yield_now().await;
        let keepers = socket.try_clone().unwrap();
        let client = SpawnerClient::connect(keepers, holding_init(&held), 2).await.unwrap();
        Self { machine, client, socket, held, ids }
    }

    pub(crate) fn command(&self, argv: &[&str]) -> Command {
        self.ids.set(self.ids.get() + 1);
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/agent"), ("LANG", "C.UTF-8")];
        Command {
            id: ProcessId(format!("p{}", self.ids.get())),
            argv: argv.iter().map(ToString::to_string).collect(),
            cwd: "/workspace".into(),
            env: env
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
            terminal: None,
            stdin: false,
        }
    }

    pub(crate) async fn spawn(&self, command: Command) -> Result<Spawned, SpawnError> {
        tokio::time::timeout(PATIENCE, self.client.spawn(command)).await.expect("an answer in time")
    }

    /// Runs a script to its end.
    pub(crate) async fn sh(&self, script: &str) -> Finished {
        self.run(self.command(&["bash", "-c", script])).await
    }

    pub(crate) async fn run(&self, command: Command) -> Finished {
        let id = command.id.clone();
        let spawned = self.spawn(command).await.unwrap();
        let stderr = spawned.stderr.map(|fd| std::thread::spawn(move || read_all(fd)));
        let stdout = std::thread::spawn(move || read_all(spawned.stdout));
        let exit = loop {
            let exit = tokio::time::timeout(PATIENCE, self.client.next_exit())
                .await
                .expect("an end in time")
                .unwrap();
            self.client.forget(&exit.id).await.unwrap();
            if exit.id == id {
                break exit;
            }
        };
        let join = |thread: std::thread::JoinHandle<String>| thread.join().unwrap();
        Finished { stdout: join(stdout), stderr: stderr.map(join).unwrap_or_default(), exit }
    }

    /// A command with a terminal.
    pub(crate) fn terminal(&self, script: &str) -> Command {
        let terminal = Some(TerminalSize { columns: 97, rows: 31 });
        Command { terminal, ..self.command(&["bash", "-c", script]) }
    }
}

/// The launcher, whose death is the machine's, and the directory of its link.
pub(crate) struct Launched {
    pub(crate) child: Child,
    pub(crate) link: TempDir,
}

impl Drop for Launched {
    fn drop(&mut self) {
        // The machine's first process outlives its launcher: its change of user undid the kernel's promise.
        for pid in children(self.child.id().cast_signed()) {
            kill(pid);
        }
        drop(self.child.kill());
        drop(self.child.wait());
        // The machine's processes hold the console: its end is theirs.
        if let Some(mut console) = self.child.stderr.take() {
            drop(std::io::copy(&mut console, &mut std::io::sink()));
        }
    }
}

/// The children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Kills a process; one that is gone is as good.
pub(crate) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// A built image of the cache that the command uses too; `make test` sees to one.
fn image() -> PathBuf {
    let cache = std::env::var_os("SANDYARD_CACHE").unwrap_or_else(|| "/var/cache/sandyard".into());
    let images =
        std::fs::read_dir(Path::new(&cache).join("images")).expect("no image cache: run `make test`");
    let roots = images.flatten().map(|entry| entry.path().join("root"));
    roots
        .into_iter()
        .find(|root| root.join("workspace").is_dir())
        .expect("no image is built: run `make test`")
}

/// Starts a role in fresh namespaces; its console is the child's standard error.
pub(crate) fn launch(role: &str, config: &BootConfig, socket: Option<&OwnedFd>) -> Launched {
    launch_with(role, config, socket, "")
}

/// The same with boot document and programs as files, the document at this path.
pub(crate) fn launch_from_file(role: &str, config: &BootConfig, path: &str) -> Launched {
    launch_with(role, config, None, path)
}

fn launch_with(role: &str, config: &BootConfig, socket: Option<&OwnedFd>, boot: &str) -> Launched {
    let document = memory_file(&serde_json::to_vec(config).unwrap());
    let program = memory_file(&std::fs::read(env!("CARGO_BIN_EXE_sandyard-guest")).unwrap());
    let inherit = |fd: &OwnedFd| {
        let copy = rustix::io::fcntl_dupfd_cloexec(fd, 20).unwrap();
        rustix::io::fcntl_setfd(&copy, FdFlags::empty()).unwrap();
        copy
    };
    let (document, program, socket) = (inherit(&document), inherit(&program), socket.map(inherit));
    let link = tempfile::tempdir().unwrap();
    std::fs::set_permissions(link.path(), Permissions::from_mode(0o755)).unwrap();
    let child = HostCommand::new("unshare")
        .args(["-mpniu", "--fork", "--kill-child", "bash"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machine/enter.sh"))
        .env("IMAGE", image())
        .env("CONFIG", document.as_raw_fd().to_string())
        .env("PROGRAM", program.as_raw_fd().to_string())
        .env("SOCKET", socket.as_ref().map(|fd| fd.as_raw_fd().to_string()).unwrap_or_default())
        .env("LINK", link.path())
        .env("ROLE", role)
        .env("BOOT", boot)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    Launched { child: child.unwrap(), link }
}

/// The part of init that holds descriptors, on a thread; it ends with its keeper's end of the socket.
fn holding_init(held: &Arc<Mutex<HeldStreams>>) -> OwnedFd {
    let (ours, theirs) = pair();
    let held = Arc::clone(held);
    std::thread::spawn(move || {
        while let Ok(KeeperTurn::Everything) = held.lock().unwrap().serve(theirs.as_fd()) {
            rustix::event::poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None).unwrap();
        }
    });
    ours
}

pub(crate) fn pair() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn memory_file(content: &[u8]) -> OwnedFd {
    let mut file = File::from(rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(content).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file.into()
}

/// Reads to the end, up to 1 MiB.
pub(crate) fn read_all(fd: OwnedFd) -> String {
    rustix::io::ioctl_fionbio(&fd, false).unwrap();
    let mut text = Vec::new();
    // A terminal's master answers EIO at the end.
    drop(File::from(fd).take(1024 * 1024).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}
