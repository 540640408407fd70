//! Processes of callers: input, output, terminals, limits, attaching again.

use std::time::Instant;

use sandyard_protocol::{
    GuestErrorCode, ProcessEvent, ProcessId, ProcessInfo, ProcessInput, RequestKey, StartProcess,
    TerminalSize,
};

use super::*;

fn bash(code: &str) -> StartProcess {
    StartProcess { argv: vec!["bash".into(), "-c".into(), code.into()], ..StartProcess::default() }
}

async fn start(host: &TestHost, start: StartProcess) -> (ProcessInfo, Framed<PipeStream>) {
    match host.ask(&Request::StartProcess(start)).await {
        (Reply::Process(info), stream) => (info, stream),
        (other, _) => panic!("{other:?}"),
    }
}

async fn attach(
    host: &TestHost,
    process: &ProcessId,
    from: OutputOffsets,
) -> (ProcessInfo, Framed<PipeStream>) {
    match host.ask(&Request::AttachProcess { process: process.clone(), from }).await {
        (Reply::Process(info), stream) => (info, stream),
        (other, _) => panic!("{other:?}"),
    }
}

/// What came out of a process, from where it was followed.
#[derive(Default, Debug)]
struct ProcessOutput {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    lost: u64,
    exit: Option<Exit>,
}

impl ProcessOutput {
    fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Data(data) => {
                let chunk = OutputChunk::decode(data).unwrap();
                match chunk.stream {
                    OutputStream::Stdout => self.stdout.extend_from_slice(&chunk.bytes),
                    OutputStream::Stderr => self.stderr.extend_from_slice(&chunk.bytes),
                }
            }
            Frame::Message(message) => match serde_json::from_slice(&message).unwrap() {
                ProcessEvent::Lost { bytes } => self.lost += bytes,
                ProcessEvent::Exited(exit) => self.exit = Some(exit),
            },
        }
    }

    async fn until_exit(stream: &mut Framed<PipeStream>) -> Self {
        let mut output = Self::default();
        for frame in rest(stream).await {
            output.take(frame);
        }
        assert!(output.exit.is_some(), "the stream ended without an exit: {output:?}");
        output
    }

    /// Reads until standard output contains a text.
    async fn until(&mut self, stream: &mut Framed<PipeStream>, wanted: &str) {
        within(async {
            while !String::from_utf8_lossy(&self.stdout).contains(wanted) {
                self.take(
                    stream.receive().await.unwrap().unwrap_or_else(|| panic!("ended before {wanted:?}")),
                );
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_process_gets_its_input_and_returns_both_outputs_and_its_code() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let code = "while read line; do echo \"got $line\"; done; echo $WORD >&2; pwd; exit 4";
    let mut asked = StartProcess { stdin: true, cwd: Some("sub".into()), ..bash(code) };
    asked.env.insert("WORD".into(), "over".into());
    std::fs::create_dir(machine.workspace().join("sub")).unwrap();
    let (info, mut stream) = start(&host, asked).await;
    assert!(info.pid > 0 && info.exit.is_none());
    stream.send_data(b"one\ntw").await.unwrap();
    stream.send_data(b"o\n").await.unwrap();
    stream.send_message(&ProcessInput::Close).await.unwrap();
    let output = ProcessOutput::until_exit(&mut stream).await;
    let expected =
        format!("got one\ngot two\n{}\n", machine.workspace().join("sub").canonicalize().unwrap().display());
    assert_eq!((text(&output.stdout), text(&output.stderr)), (expected.as_str(), "over\n"));
    assert_eq!(output.exit, Some(own(4)));
}

#[tokio::test]
async fn a_terminal_echoes_resizes_and_is_interrupted() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let size = TerminalSize { columns: 80, rows: 24 };
    let asked = StartProcess {
        terminal: Some(size),
        ..bash("echo $TERM; stty size; read x; stty size; echo ready; cat")
    };
    let (_, mut stream) = start(&host, asked).await;
    let mut output = ProcessOutput::default();
    output.until(&mut stream, "xterm-256color\r\n24 80\r\n").await;
    stream.send_message(&ProcessInput::Resize(TerminalSize { columns: 132, rows: 50 })).await.unwrap();
    stream.send_data(b"go\n").await.unwrap();
    output.until(&mut stream, "go\r\n50 132\r\nready\r\n").await;
    stream.send_data(&[3]).await.unwrap();
    let end = ProcessOutput::until_exit(&mut stream).await;
    assert_eq!(end.exit.unwrap().signal, Some(2), "{end:?}");
}

#[tokio::test]
async fn many_followers_see_the_same_and_a_lost_one_comes_back_by_offset() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let (info, mut first) =
        start(&host, StartProcess { stdin: true, ..bash("echo early; cat; echo end") }).await;
    let mut output = ProcessOutput::default();
    output.until(&mut first, "early\n").await;
    let (_, mut second) = attach(&host, &info.id, OutputOffsets::default()).await;
    second.send_data(b"typed\n").await.unwrap();
    output.until(&mut first, "typed\n").await;
    drop(first);
    drop(host);
    let host = machine.host().await;
    let from = OutputOffsets { stdout: output.stdout.len() as u64, stderr: 0 };
    let (_, mut third) = attach(&host, &info.id, from).await;
    third.send_message(&ProcessInput::Close).await.unwrap();
    let end = ProcessOutput::until_exit(&mut third).await;
    assert_eq!(text(&end.stdout), "end\n");
    let (late, mut fourth) = attach(&host, &info.id, OutputOffsets::default()).await;
    assert_eq!(late.exit, Some(own(0)));
    assert_eq!(text(&ProcessOutput::until_exit(&mut fourth).await.stdout), "early\ntyped\nend\n");
}

#[tokio::test]
async fn a_process_outlives_keeper_with_its_output_and_input() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let code = "for i in {1..20000}; do echo $i; done; read word; echo $word; exit 5";
    let (info, stream) = start(&host, StartProcess { stdin: true, ..bash(code) }).await;
    let (ended, mut quick) = start(&host, bash("echo quick")).await;
    ProcessOutput::until_exit(&mut quick).await;
    drop((host, stream, quick));
    machine.kill_keeper().await;
    machine.start_keeper();
    let host = machine.host().await;
    let (_, mut stream) = attach(&host, &info.id, OutputOffsets::default()).await;
    stream.send_data(b"again\n").await.unwrap();
    let output = ProcessOutput::until_exit(&mut stream).await;
    let expected: String = (1..=20000).map(|number| format!("{number}\n")).collect();
    assert_eq!(text(&output.stdout), expected + "again\n");
    assert_eq!(output.exit, Some(own(5)));
    let (info, mut quick) = attach(&host, &ended.id, OutputOffsets::default()).await;
    assert_eq!(info.exit, Some(own(0)));
    assert_eq!(text(&ProcessOutput::until_exit(&mut quick).await.stdout), "quick\n");
    let Reply::Processes(list) = host.ask(&Request::ListProcesses).await.0 else { panic!("no list") };
    assert_eq!(list.len(), 2);
    assert_eq!(list[0].id, ended.id, "newest first");
    let (newer, _stream) = start(&host, bash("true")).await;
    assert!(list.iter().all(|old| old.id != newer.id), "an id was used twice");
}

#[tokio::test]
async fn limits_end_a_process_and_keep_what_it_said() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let total =
        StartProcess { timeout_ms: Some(400), ..bash("echo partial; while :; do echo -n; sleep 0.05; done") };
    let idle = StartProcess { idle_timeout_ms: Some(300), ..bash("echo partial; sleep 60") };
    let stubborn = StartProcess {
        timeout_ms: Some(200),
        ..bash("trap '' TERM; echo partial; while :; do sleep 0.05; done")
    };
    for (asked, reason, signal) in [
        (total, EndReason::Timeout, 15),
        (idle, EndReason::IdleTimeout, 15),
        (stubborn, EndReason::Timeout, 9),
    ] {
        let (_, mut stream) = start(&host, asked).await;
        let output = ProcessOutput::until_exit(&mut stream).await;
        assert_eq!(text(&output.stdout), "partial\n");
        assert_eq!(output.exit, Some(Exit { code: 128 + signal, signal: Some(signal), reason }));
    }
}

#[tokio::test]
async fn a_process_ends_with_its_stream_only_if_asked_to() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let (ends, ends_stream) = start(&host, StartProcess { ends_with_stream: true, ..bash("sleep 60") }).await;
    let (stays, stays_stream) = start(&host, bash("sleep 60")).await;
    drop((ends_stream, stays_stream));
    let (_, mut stream) = attach(&host, &ends.id, OutputOffsets::default()).await;
    assert_eq!(ProcessOutput::until_exit(&mut stream).await.exit.unwrap().reason, EndReason::Cancelled);
    let signal = Request::SignalProcess { process: stays.id.clone(), signal: 10 };
    assert_eq!(host.ask(&signal).await.0, Reply::Done);
    let (_, mut stream) = attach(&host, &stays.id, OutputOffsets::default()).await;
    assert_eq!(
        ProcessOutput::until_exit(&mut stream).await.exit,
        Some(Exit { code: 138, signal: Some(10), reason: EndReason::Own })
    );
    assert_eq!(host.ask(&signal).await.0, Reply::Done, "a signal to an ended process is harmless");
}

/// Reads the last number in a file that a process writes to.
fn counted(machine: &TestMachine) -> u64 {
    let text = std::fs::read_to_string(machine.workspace().join("count")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[tokio::test]
async fn a_process_that_nobody_follows_ends_but_not_for_want_of_a_server() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let count = "i=0; while :; do i=$((i+1)); echo $i > new; mv new count; sleep 0.02; done";
    let (info, stream) = start(&host, StartProcess { linger_ms: Some(400), ..bash(count) }).await;
    // Far longer than the limit, with a stream: it goes on.
    within(async {
        while counted(&machine) < 40 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    // The same without any server.
    drop((stream, host));
    let known = counted(&machine);
    within(async {
        while counted(&machine) < known + 40 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let host = machine.host().await;
    let (found, stream) = attach(&host, &info.id, OutputOffsets::default()).await;
    assert_eq!(found.exit, None, "it must wait for its client");
    // Now there is a server, and nobody comes.
    drop(stream);
    let ended = within(async {
        loop {
            let Reply::Processes(list) = host.ask(&Request::ListProcesses).await.0 else { panic!("no list") };
            match list.iter().find(|other| other.id == info.id).unwrap().exit {
                Some(exit) => return exit,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    assert_eq!(ended.reason, EndReason::Cancelled);
}

#[tokio::test]
async fn a_process_whose_input_is_cut_off_ends_and_one_with_whole_input_goes_on() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let asked = || StartProcess {
        stdin: true,
        needs_whole_input: true,
        ..bash("cat > taken; while [ ! -e go ]; do sleep 0.02; done; wc -c < taken")
    };
    let (cut, mut cut_stream) = start(&host, asked()).await;
    cut_stream.send_data(b"half").await.unwrap();
    let (whole, mut whole_stream) = start(&host, asked()).await;
    whole_stream.send_data(b"whole").await.unwrap();
    whole_stream.send_message(&ProcessInput::Close).await.unwrap();
    let (_, mut follower) = attach(&host, &cut.id, OutputOffsets::default()).await;
    within(async {
        while std::fs::read(machine.workspace().join("taken")).unwrap_or_default() != b"whole" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    drop((cut_stream, whole_stream));
    assert_eq!(ProcessOutput::until_exit(&mut follower).await.exit.unwrap().reason, EndReason::Cancelled);
    std::fs::write(machine.workspace().join("go"), "").unwrap();
    let (_, mut follower) = attach(&host, &whole.id, OutputOffsets::default()).await;
    assert_eq!(ProcessOutput::until_exit(&mut follower).await.exit, Some(own(0)));
}

#[tokio::test]
async fn a_killed_keeper_ends_only_the_process_whose_input_was_cut_off() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let asked = |code| StartProcess { stdin: true, needs_whole_input: true, ..bash(code) };
    let (cut, mut cut_stream) = start(&host, asked("cat; echo end")).await;
    cut_stream.send_data(b"half").await.unwrap();
    let mut seen = ProcessOutput::default();
    seen.until(&mut cut_stream, "half").await;
    let waits = "cat; echo taken; while [ ! -e go ]; do sleep 0.02; done; echo end";
    let (whole, mut whole_stream) = start(&host, asked(waits)).await;
    whole_stream.send_message(&ProcessInput::Close).await.unwrap();
    seen.until(&mut whole_stream, "taken").await;
    drop((host, cut_stream, whole_stream));
    machine.kill_keeper().await;
    machine.start_keeper();
    let host = machine.host().await;
    let (_, mut stream) = attach(&host, &cut.id, OutputOffsets::default()).await;
    assert_eq!(ProcessOutput::until_exit(&mut stream).await.exit.unwrap().reason, EndReason::Cancelled);
    std::fs::write(machine.workspace().join("go"), "").unwrap();
    let (_, mut stream) = attach(&host, &whole.id, OutputOffsets::default()).await;
    assert_eq!(text(&ProcessOutput::until_exit(&mut stream).await.stdout), "taken\nend\n");
}

#[tokio::test]
async fn a_key_starts_a_process_once() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let key = |body: &str| Some(RequestKey { key_sha256: "k".into(), body_sha256: body.into() });
    let once = || StartProcess { key: key("b"), ..bash("echo run >> runs; wc -l < runs") };
    // Two at once: one starts it, the other waits for its turn and finds it.
    let (first, second) = tokio::join!(start(&host, once()), start(&host, once()));
    assert_eq!(first.0.id, second.0.id);
    assert!(first.0.repeated != second.0.repeated);
    for mut stream in [first.1, second.1] {
        assert_eq!(text(&ProcessOutput::until_exit(&mut stream).await.stdout).trim(), "1");
    }
    drop(host);
    machine.kill_keeper().await;
    machine.start_keeper();
    let host = machine.host().await;
    let (again, mut stream) = start(&host, once()).await;
    assert!(again.repeated && again.id == first.0.id);
    assert_eq!(text(&ProcessOutput::until_exit(&mut stream).await.stdout).trim(), "1");
    let other = StartProcess { key: key("c"), ..bash("true") };
    let (reply, _) = host.ask(&Request::StartProcess(other)).await;
    assert!(
        matches!(&reply, Reply::Failed(error) if error.code == GuestErrorCode::AlreadyExists),
        "{reply:?}"
    );
    // Its output is forgotten before its key: it is refused, not run again.
    for _ in 0..crate::limits::ENDED_PROCESSES + 8 {
        let (_, mut stream) = start(&host, bash("true")).await;
        ProcessOutput::until_exit(&mut stream).await;
    }
    let (reply, _) = host.ask(&Request::StartProcess(once())).await;
    assert!(
        matches!(&reply, Reply::Failed(error) if error.code == GuestErrorCode::AlreadyExists),
        "{reply:?}"
    );
    assert_eq!(std::fs::read_to_string(machine.workspace().join("runs")).unwrap(), "run\n");
}

#[tokio::test]
async fn a_list_of_long_commands_fits_into_a_message() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let long = format!("true {}", "\u{1}".repeat(100_000));
    for _ in 0..20 {
        let (info, mut stream) = start(&host, bash(&long)).await;
        assert!(info.argv.concat().len() <= sandyard_protocol::limits::LISTED_ARGUMENT_BYTES);
        ProcessOutput::until_exit(&mut stream).await;
    }
    let reply = host.ask(&Request::ListProcesses).await.0;
    assert!(serde_json::to_vec(&reply).unwrap().len() < sandyard_protocol::limits::MESSAGE_BYTES);
}

#[tokio::test]
async fn what_a_process_leaves_in_the_background_does_not_hold_its_end() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let began = Instant::now();
    let (_, mut stream) = start(&host, bash("(sleep 1; echo late; touch unharmed) & echo now")).await;
    assert_eq!(text(&ProcessOutput::until_exit(&mut stream).await.stdout), "now\n");
    assert!(began.elapsed() < Duration::from_millis(800));
    within(async {
        while !machine.workspace().join("unharmed").exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_flood_reaches_a_follower_whole_and_the_absent_lose_only_the_oldest() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let flood = "head -c 50000000 /dev/zero; echo tail";
    let (info, mut stream) = start(&host, bash(flood)).await;
    let output = ProcessOutput::until_exit(&mut stream).await;
    assert_eq!((output.stdout.len(), output.lost), (50_000_005, 0));
    let (_, mut late) = attach(&host, &info.id, OutputOffsets::default()).await;
    let output = ProcessOutput::until_exit(&mut late).await;
    assert!(output.stdout.ends_with(b"tail\n"));
    assert_eq!(output.lost + output.stdout.len() as u64, 50_000_005);
    assert!(output.lost > 0);
}

#[tokio::test]
async fn what_can_not_be_started_or_found_is_told_so() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let program = |name: &str| StartProcess { argv: vec![name.into()], ..StartProcess::default() };
    let nowhere = StartProcess { cwd: Some("/no/such/place".into()), ..bash("true") };
    for (asked, code) in [
        (program("no-such-program-here"), GuestErrorCode::SpawnFailed),
        (nowhere, GuestErrorCode::SpawnFailed),
        (StartProcess::default(), GuestErrorCode::BadRequest),
        (program("a\0b"), GuestErrorCode::BadRequest),
        (program(&"x".repeat(2 << 20)), GuestErrorCode::LimitReached),
    ] {
        let (reply, _) = host.ask(&Request::StartProcess(asked)).await;
        assert!(matches!(&reply, Reply::Failed(error) if error.code == code), "{reply:?}");
    }
    let unknown = ProcessId("p9-9".into());
    let attach = Request::AttachProcess { process: unknown.clone(), from: OutputOffsets::default() };
    for request in [attach, Request::SignalProcess { process: unknown, signal: 9 }] {
        let (reply, _) = host.ask(&request).await;
        assert!(
            matches!(&reply, Reply::Failed(error) if error.code == GuestErrorCode::NotFound),
            "{reply:?}"
        );
    }
    assert_eq!(host.ask(&Request::ListProcesses).await.0, Reply::Processes(vec![]));
}

#[tokio::test]
async fn only_so_many_ended_processes_are_remembered() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    for _ in 0..crate::limits::ENDED_PROCESSES + 8 {
        let (_, mut stream) = start(&host, bash("true")).await;
        ProcessOutput::until_exit(&mut stream).await;
    }
    let Reply::Processes(list) = host.ask(&Request::ListProcesses).await.0 else { panic!("no list") };
    assert!(list.len() <= crate::limits::ENDED_PROCESSES + 1, "{}", list.len());
    let on_disk = std::fs::read_dir(machine.folder.path().join("spool/output")).unwrap().count();
    assert!(on_disk <= list.len() + 1);
}
