//! A machine in namespaces of its own, made by `enter.sh`, with the test as keeper. Needs root.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command as HostCommand, Stdio};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use sandyard_guest::process_host::{Command, ProcessHost as _, RawExit, SpawnError, Spawned};
use sandyard_guest::spawner_client::SpawnerClient;
use sandyard_protocol::{BootConfig, LinkTarget, ProcessId, Secret, SpawnerSource, TerminalSize};

/// Longest wait for anything in these tests.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A spawner in a machine, and the client that a keeper would use.
pub struct Machine {
    child: Child,
    pub client: SpawnerClient,
    /// The spawner's socket, as init would hold it for the next keeper.
    pub socket: OwnedFd,
    ids: std::cell::Cell<u32>,
}

/// What a finished command said and how it ended.
pub struct Finished {
    pub stdout: String,
    pub stderr: String,
    pub exit: RawExit,
}

/// Why these tests can't run here, if so.
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    let probe = HostCommand::new("unshare").args(["-mpniu", "--fork", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return Some("needs unshare(1) and leave to make namespaces".into());
    }
    None
}

pub fn config() -> BootConfig {
    BootConfig {
        secret: Secret::new([7; 32]),
        link: LinkTarget::UnixSocket { path: "/run/sandyard/link".into() },
        agent_id: 1000,
        keeper_id: 1001,
        spawner: SpawnerSource::Fork { cgroup_procs: Vec::new() },
        spool: "/run/sandyard/spool".into(),
        hidden: vec!["/run/sandyard".into(), "/mnt".into()],
        writable: ["/workspace", "/home/agent", "/tmp", "/dev/shm", "/run/user/1000"].map(Into::into).into(),
        open_files: 512,
        lifetime_s: 120,
        nested_user_namespaces: false,
    }
}

impl Machine {
    /// Starts a spawner and connects to it.
    pub async fn start(config: &BootConfig) -> Self {
        let (ours, theirs) = pair();
        let child = launch("spawner", config, Some(&theirs));
        drop(theirs);
        let socket = ours.try_clone().unwrap();
        let client = SpawnerClient::connect(ours, empty_init(), 1).await.unwrap();
        Self { child, client, socket, ids: 0.into() }
    }

    pub fn command(&self, argv: &[&str]) -> Command {
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

    pub async fn spawn(&self, command: Command) -> Result<Spawned, SpawnError> {
        tokio::time::timeout(PATIENCE, self.client.spawn(command)).await.expect("an answer in time")
    }

    /// Runs a script to its end.
    pub async fn sh(&self, script: &str) -> Finished {
        self.run(self.command(&["bash", "-c", script])).await
    }

    pub async fn run(&self, command: Command) -> Finished {
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
    pub fn terminal(&self, script: &str) -> Command {
        let terminal = Some(TerminalSize { columns: 97, rows: 31 });
        Command { terminal, ..self.command(&["bash", "-c", script]) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a role in fresh namespaces; its console is this process's.
pub fn launch(role: &str, config: &BootConfig, socket: Option<&OwnedFd>) -> Child {
    let document = memory_file(&serde_json::to_vec(config).unwrap());
    let program = memory_file(&std::fs::read(env!("CARGO_BIN_EXE_sandyard-guest")).unwrap());
    let image = Path::new("/var/cache/sandyard/dev-base/root");
    let image = if image.exists() { image } else { Path::new("/") };
    let inherit = |fd: &OwnedFd| {
        let copy = rustix::io::fcntl_dupfd_cloexec(fd, 20).unwrap();
        rustix::io::fcntl_setfd(&copy, FdFlags::empty()).unwrap();
        copy
    };
    let (document, program, socket) = (inherit(&document), inherit(&program), socket.map(inherit));
    let child = HostCommand::new("unshare")
        .args(["-mpniu", "--fork", "--kill-child", "bash"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machine/enter.sh"))
        .env("IMAGE", image)
        .env("CONFIG", document.as_raw_fd().to_string())
        .env("PROGRAM", program.as_raw_fd().to_string())
        .env("SOCKET", socket.as_ref().map(|fd| fd.as_raw_fd().to_string()).unwrap_or_default())
        .env("ROLE", role)
        .stdin(Stdio::null())
        .spawn();
    child.unwrap()
}

/// An init that holds nothing: answers every question so, and takes the rest.
pub fn empty_init() -> OwnedFd {
    let (ours, theirs) = pair();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length @ 1.., _)) =
            rustix::net::recv(theirs.as_fd(), &mut buffer[..], RecvFlags::empty())
        {
            if buffer[..length].starts_with(b"{\"show\"") {
                rustix::net::send(theirs.as_fd(), b"\"end\"", SendFlags::NOSIGNAL).unwrap();
            }
        }
    });
    ours
}

pub fn pair() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn memory_file(content: &[u8]) -> OwnedFd {
    let mut file = File::from(rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(content).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file.into()
}

/// Reads to the end, up to 1 MiB.
pub fn read_all(fd: OwnedFd) -> String {
    rustix::io::ioctl_fionbio(&fd, false).unwrap();
    let mut text = Vec::new();
    // A terminal's master answers EIO at the end.
    drop(File::from(fd).take(1024 * 1024).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}
