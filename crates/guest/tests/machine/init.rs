//! A whole machine: init makes spawner and keeper, keeper dials, and each dies in turn.

#![expect(clippy::unwrap_used, reason = "a test's support may fail the test")]

use std::io::Read as _;
use std::time::{Duration, Instant};

use sandyard_pipe::{Frame, FrameLimits, Framed, HostOffer, Link, PipeStream, welcome};
use sandyard_protocol::{
    BootConfig, OutputOffsets, ProcessEvent, ProcessInfo, ProcessInput, Reply, Request, StartProcess, limits,
};
use tokio::net::UnixListener;

use crate::support::{Launched, PATIENCE, children, config, kill, launch, launch_from_file, obstacle};

/// A machine and the host's end of its link.
struct Whole {
    machine: Launched,
    listener: UnixListener,
}

impl Whole {
    fn start(config: &BootConfig) -> Self {
        Self::listen(launch("init", config, None))
    }

    fn listen(machine: Launched) -> Self {
        let listener = UnixListener::bind(machine.link.path().join("link")).unwrap();
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(machine.link.path().join("link"), everyone).unwrap();
        Self { machine, listener }
    }

    async fn link(&self, epoch: u64) -> Link {
        let offer = HostOffer { sandbox: "test".into(), secret: [7; 32], epoch, unix_ms: 0 };
        let accept = async { welcome(self.listener.accept().await.unwrap().0, offer).await.unwrap() };
        tokio::time::timeout(PATIENCE, accept).await.unwrap()
    }

    /// The pid, outside, of the machine's process whose arguments are our program and this role.
    fn pid(&self, role: &str) -> Option<i32> {
        let command = format!("sandyard-guest\0{role}\0");
        descendants(self.machine.child.id().cast_signed()).into_iter().find(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == command.as_bytes())
        })
    }

    /// Waits for the machine's own end: its code and what it said on the console.
    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.machine.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the machine goes on");
            std::thread::park_timeout(Duration::from_millis(20));
        };
        let mut console = String::new();
        self.machine.child.stderr.take().unwrap().read_to_string(&mut console).unwrap();
        (status.code(), console)
    }
}

fn descendants(pid: i32) -> Vec<i32> {
    children(pid).into_iter().flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

async fn ask(link: &Link, request: &Request) -> (Reply, Framed<PipeStream>) {
    let limits = FrameLimits {
        message_bytes: limits::MESSAGE_BYTES,
        sent_message_bytes: limits::REQUEST_BYTES,
        data_bytes: 2 * limits::DATA_BYTES,
    };
    let mut stream = Framed::new(link.open().await.unwrap(), limits);
    stream.send_message(request).await.unwrap();
    let reply = tokio::time::timeout(PATIENCE, stream.receive_message::<Reply>()).await.unwrap().unwrap();
    (reply, stream)
}

async fn start(link: &Link, script: &str) -> (ProcessInfo, Framed<PipeStream>) {
    let argv = ["bash", "-c", script].map(Into::into).into();
    let (reply, stream) =
        ask(link, &Request::StartProcess(StartProcess { argv, stdin: true, ..Default::default() })).await;
    let Reply::Process(info) = reply else { panic!("{reply:?}") };
    (info, stream)
}

/// Follows a process to its end; its output and exit code.
async fn follow(mut stream: Framed<PipeStream>) -> (String, i32) {
    let mut output = String::new();
    loop {
        match tokio::time::timeout(PATIENCE, stream.receive()).await.unwrap().unwrap() {
            Some(Frame::Data(bytes)) => output.push_str(&String::from_utf8_lossy(&bytes)),
            Some(Frame::Message(message)) => match serde_json::from_slice(&message).unwrap() {
                ProcessEvent::Exited(exit) => return (output, exit.code),
                ProcessEvent::Lost { .. } => {}
            },
            None => panic!("no exit after {output}"),
        }
    }
}

#[tokio::test]
async fn a_machine_serves_and_its_processes_outlive_keeper() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let machine = Whole::start(&config());
    let link = machine.link(1).await;
    let (info, mut stream) = start(&link, "echo before; read line; echo got $line; cat; exit 6").await;
    let Some(Frame::Data(first)) = stream.receive().await.unwrap() else { panic!("no output") };
    assert!(first.ends_with(b"before\n"));
    let keeper = machine.pid("keeper").unwrap();
    kill(keeper);
    let link = machine.link(2).await;
    assert_ne!(machine.pid("keeper"), Some(keeper));
    let from = OutputOffsets::default();
    let (reply, mut stream) = ask(&link, &Request::AttachProcess { process: info.id, from }).await;
    assert!(matches!(&reply, Reply::Process(found) if found.pid == info.pid), "{reply:?}");
    stream.send_data(b"hello\nrest\n").await.unwrap();
    stream.send_message(&ProcessInput::Close).await.unwrap();
    let (output, code) = follow(stream).await;
    assert!(
        output.contains("before\n") && output.contains("got hello\n") && output.contains("rest\n"),
        "{output}"
    );
    assert_eq!(code, 6);
    let (reply, _) = ask(&link, &Request::MakeDirectory { path: "made".into() }).await;
    assert!(matches!(reply, Reply::Stat(_)), "{reply:?}");
}

#[tokio::test]
async fn k2_k7_no_process_of_a_machine_has_privilege_and_all_are_filtered() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let machine = Whole::start(&config());
    let link = machine.link(1).await;
    let (_, stream) = start(&link, "sleep 100 & echo started; wait").await;
    drop(stream);
    for role in ["init", "spawner", "keeper"] {
        assert!(machine.pid(role).is_some(), "{role}");
    }
    for pid in descendants(machine.machine.child.id().cast_signed()) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        for line in
            ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"]
        {
            assert!(status.contains(line), "{line} in {status}");
        }
        assert!(!status.contains("Uid:\t0"), "{status}");
    }
}

/// A machine that inherits nothing: the document is a file, the job sees neither it nor its directory, and the agent's program
/// runs by its path.
#[tokio::test]
async fn a_machine_boots_from_a_file_that_the_job_cant_see() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let mut config = config();
    config.hidden.push("/run/init".into());
    config.agent_program = Some("/run/guest/sandyard-agent".into());
    let machine = Whole::listen(launch_from_file("init", &config, "/run/init/boot.json"));
    let link = machine.link(1).await;
    let look = "ls /run/init | wc -l; cat /run/init/boot.json 2>&1; ls /proc/self/fd | wc -l";
    let (output, code) = follow(start(&link, look).await.1).await;
    assert!(output.contains("0\n") && output.contains("No such file"), "{code} {output}");
    // Standard streams and the directory that is being read.
    assert!(output.ends_with("4\n"), "{output}");
    let argv = vec![sandyard_protocol::AGENT_PROGRAM.to_owned(), "no-such-role".to_owned()];
    let request = Request::StartProcess(StartProcess { argv, ..Default::default() });
    let (reply, stream) = ask(&link, &request).await;
    assert!(matches!(reply, Reply::Process(_)), "{reply:?}");
    let (output, code) = follow(stream).await;
    assert!(code == 1 && output.contains("no role is named"), "{code} {output}");
}

#[tokio::test]
async fn the_machine_ends_with_its_time() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let machine = Whole::start(&BootConfig { lifetime_s: 2, ..config() });
    let _link = machine.link(1).await;
    let (code, console) = machine.end();
    assert!(console.contains("the machine's time is over"), "{console}");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn the_machine_ends_with_its_spawner() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let machine = Whole::start(&config());
    let _link = machine.link(1).await;
    kill(machine.pid("spawner").unwrap());
    let (_, console) = machine.end();
    assert!(console.contains("the spawner is gone"), "{console}");
}

#[tokio::test]
async fn k21_a_step_that_fails_is_told_and_ends_the_machine() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let table: [(BootConfig, &str); 3] = [
        (BootConfig { writable: vec!["/no/such/place".into()], ..config() }, "\"stage\":\"landlock\""),
        (BootConfig { agent_id: 0, ..config() }, "\"stage\":\"drop privileges\""),
        (BootConfig { spool: "/no/such/spool".into(), ..config() }, "\"stage\":\"landlock\""),
    ];
    for (config, expected) in table {
        let (_, console) = Whole::start(&config).end();
        assert!(console.contains(expected), "{console}");
    }
}
