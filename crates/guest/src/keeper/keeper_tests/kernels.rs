//! Code in keeper's own bash: state, streams, statuses, interrupts, limits, and a keeper that is killed.

use std::time::Instant;

use sandyard_protocol::{
    Execute, ExecutionEnd, ExecutionError, ExecutionInfo, GuestErrorCode, KernelEvent, KernelId, KernelInfo,
    Language, Outcome, RequestKey,
};

use super::*;

/// What one execution brought.
#[derive(Debug, Default)]
struct Brought {
    stdout: String,
    stderr: String,
    notes: String,
    error: Option<ExecutionError>,
    end: Option<ExecutionEnd>,
}

impl Brought {
    fn outcome(&self) -> Outcome {
        self.end.as_ref().unwrap().outcome
    }
}

fn bash(code: &str) -> Execute {
    Execute {
        language: Language::Bash,
        code: code.into(),
        kernel: None,
        timeout_ms: None,
        idle_timeout_ms: None,
        interrupt_on_loss: false,
        key: None,
    }
}

async fn begin(host: &TestHost, execute: Execute) -> (ExecutionInfo, Framed<PipeStream>) {
    match host.ask(&Request::Execute(execute)).await {
        (Reply::Execution(info), stream) => (info, stream),
        (other, _) => panic!("{other:?}"),
    }
}

async fn next(stream: &mut Framed<PipeStream>, brought: &mut Brought) -> bool {
    match within(stream.receive()).await {
        Ok(Some(Frame::Message(message))) => match serde_json::from_slice(&message).unwrap() {
            KernelEvent::Text { stream: OutputStream::Stdout, text } => brought.stdout += &text,
            KernelEvent::Text { stream: OutputStream::Stderr, text } => brought.stderr += &text,
            KernelEvent::Note { text } => brought.notes += &text,
            KernelEvent::Error(error) => brought.error = Some(error),
            KernelEvent::Done(end) => brought.end = Some(end),
            _ => {}
        },
        Ok(Some(_)) => {}
        _ => return false,
    }
    true
}

async fn finish(mut stream: Framed<PipeStream>) -> Brought {
    let mut brought = Brought::default();
    while next(&mut stream, &mut brought).await {}
    brought
}

#[tokio::test]
async fn a_key_runs_code_once() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let key = |body: &str| Some(RequestKey { key_sha256: "k".into(), body_sha256: body.into() });
    let once = || Execute { key: key("b"), ..bash("echo run >> runs; wc -l < runs") };
    let (first, second) = tokio::join!(begin(&host, once()), begin(&host, once()));
    assert_eq!(first.0.id, second.0.id);
    for stream in [first.1, second.1] {
        assert_eq!(finish(stream).await.stdout.trim(), "1");
    }
    drop(host);
    machine.kill_keeper().await;
    machine.start_keeper();
    let host = machine.host().await;
    let (again, stream) = begin(&host, once()).await;
    assert_eq!((again.id, finish(stream).await.stdout.trim()), (first.0.id, "1"));
    let other = Execute { key: key("c"), ..bash("true") };
    let (reply, _) = host.ask(&Request::Execute(other)).await;
    assert!(
        matches!(&reply, Reply::Failed(error) if error.code == GuestErrorCode::AlreadyExists),
        "{reply:?}"
    );
}

async fn run_code(host: &TestHost, code: &str) -> Brought {
    finish(begin(host, bash(code)).await.1).await
}

/// Waits until the execution has printed something.
async fn until_output(stream: &mut Framed<PipeStream>) {
    let mut brought = Brought::default();
    while brought.stdout.is_empty() {
        assert!(next(stream, &mut brought).await, "{brought:?}");
    }
}

async fn kernels(host: &TestHost) -> Vec<KernelInfo> {
    match host.ask(&Request::ListKernels).await.0 {
        Reply::Kernels(list) => list,
        other => panic!("{other:?}"),
    }
}

fn id() -> KernelId {
    KernelId("bash".into())
}

#[tokio::test]
async fn state_stays_and_streams_and_statuses_are_told_apart() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    run_code(&host, "X='a b'; f() { echo \"f $1\"; }; mkdir sub; cd sub; shopt -s nullglob").await;
    let brought =
        run_code(&host, "echo \"$X\"; f 'ü €'; basename \"$PWD\"; echo bad >&2; cat; echo *.none").await;
    assert_eq!((brought.stdout.as_str(), brought.stderr.as_str()), ("a b\nf ü €\nsub\n\n", "bad\n"));
    assert_eq!((brought.outcome(), brought.end.unwrap().execution_count), (Outcome::Ok, Some(2)));
    let failed = run_code(&host, "echo before; (exit 7)").await;
    assert_eq!((failed.outcome(), failed.stdout.as_str()), (Outcome::Error, "before\n"));
    let error = failed.error.unwrap();
    assert_eq!((error.name.as_str(), error.value.as_str()), ("NonzeroStatus", "7"));
    // Errors that end a script give up their own code only.
    for code in ["if true; then", "set -u; echo $nothing; echo more", "set +u; echo ${nothing:?}; echo more"]
    {
        let broken = run_code(&host, code).await;
        assert_eq!((broken.outcome(), broken.stdout.as_str()), (Outcome::Error, ""), "{broken:?}");
        assert!(broken.stderr.contains("bash: "), "{broken:?}");
    }
    let list = kernels(&host).await;
    assert_eq!((list[0].execution_count, list[0].connection_file.as_str()), (6, ""));
}

#[tokio::test]
async fn code_is_run_as_it_is_written_however_long() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let word: String = "'\"\\`$(x)!\t".chars().chain('\u{1}'..'\u{20}').collect();
    let brought = run_code(&host, &format!("cat <<'END'\n{word}\nEND")).await;
    assert_eq!(brought.stdout, format!("{word}\n"));
    let long = "x'€\n".repeat(100_000);
    let brought = run_code(&host, &format!("cat <<'END' | wc -c\n{long}END")).await;
    assert_eq!(brought.stdout.trim(), long.len().to_string());
    let nul = run_code(&host, "echo a\0b").await;
    assert_eq!((nul.outcome(), nul.stdout.as_str()), (Outcome::Error, ""));
    assert_eq!(run_code(&host, "echo fine").await.stdout, "fine\n");
}

#[tokio::test]
async fn settings_of_the_code_do_not_disturb_the_next() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    run_code(&host, "PS1='(venv) '; PROMPT_COMMAND='echo prompt'; alias builtin=false; set -eux -o pipefail")
        .await;
    assert_eq!(run_code(&host, "echo one").await.stdout, "one\n");
    run_code(&host, "set +eux; PROMPT_COMMAND=; exec >elsewhere; echo away").await;
    assert_eq!(run_code(&host, "echo away; cat elsewhere >&2").await.stderr, "away\naway\n");
    let late = run_code(&host, "exec >&$__sandyard_out; (sleep 0.3; echo late) & echo now").await;
    assert_eq!(late.stdout, "now\n");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(run_code(&host, "echo next").await.stdout, "next\n");
}

#[tokio::test]
async fn an_interrupt_ends_the_code_and_neither_the_shell_nor_its_background() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    run_code(&host, "X=7; sleep 60 & BACKGROUND=$!").await;
    for code in [
        "echo go; sleep 60; echo more",
        "echo go; while :; do :; done; echo more",
        "f() { echo go; sleep 60; }; f; f",
    ] {
        let (_, mut stream) = begin(&host, bash(code)).await;
        until_output(&mut stream).await;
        host.ask(&Request::InterruptKernel { kernel: id() }).await;
        let brought = finish(stream).await;
        assert_eq!((brought.outcome(), brought.stdout.as_str()), (Outcome::Interrupted, ""), "{brought:?}");
    }
    let brought = run_code(&host, "echo $X; kill -0 $BACKGROUND && echo runs; kill $BACKGROUND").await;
    assert_eq!(brought.stdout, "7\nruns\n");
}

#[tokio::test]
async fn limits_interrupt_and_what_does_not_obey_is_replaced() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let limited = Execute { timeout_ms: Some(300), ..bash("echo partial; sleep 60") };
    let brought = finish(begin(&host, limited).await.1).await;
    assert_eq!((brought.outcome(), brought.stdout.as_str()), (Outcome::TimedOut, "partial\n"));
    let silent = Execute { idle_timeout_ms: Some(300), ..bash("X=1; echo partial; sleep 60") };
    assert_eq!(finish(begin(&host, silent).await.1).await.outcome(), Outcome::IdleTimedOut);
    let stubborn = Execute { timeout_ms: Some(200), ..bash("trap '' INT; while :; do sleep 0.1; done") };
    let brought = finish(begin(&host, stubborn).await.1).await;
    assert_eq!(brought.outcome(), Outcome::TimedOut);
    assert!(brought.notes.contains("state is lost"), "{brought:?}");
    let next = run_code(&host, "echo \"[$X]\"").await;
    assert_eq!(next.stdout, "[]\n");
    assert!(next.notes.contains("fresh"), "{next:?}");
}

#[tokio::test]
async fn exit_ends_the_shell_and_the_next_code_gets_a_fresh_one() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let brought = run_code(&host, "X=7; echo last; exit 3").await;
    assert_eq!((brought.outcome(), brought.stdout.as_str()), (Outcome::Died, "last\n"));
    assert_eq!(brought.end.unwrap().exit.unwrap().code, 3);
    let next = run_code(&host, "echo \"[$X]\"").await;
    assert_eq!((next.stdout.as_str(), next.outcome()), ("[]\n", Outcome::Ok));
    assert!(next.notes.contains("ended with code 3: this is a fresh one"), "{next:?}");
    // Restarted on request, at once.
    run_code(&host, "X=7").await;
    let before = Instant::now();
    host.ask(&Request::RestartKernel { kernel: id() }).await;
    assert!(before.elapsed() < Duration::from_secs(5));
    assert_eq!(run_code(&host, "echo \"[$X]\"").await.stdout, "[]\n");
    host.ask(&Request::StopKernel { kernel: id() }).await;
    assert!(kernels(&host).await.is_empty());
}

#[tokio::test]
async fn a_killed_keeper_finds_the_shell_and_what_it_runs() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    run_code(&host, "X=7").await;
    let code = "echo early; while [[ ! -e go ]]; do sleep 0.05; done; echo late; (exit 5)";
    let (running, mut stream) = begin(&host, bash(code)).await;
    until_output(&mut stream).await;
    drop((stream, host));
    machine.kill_keeper().await;
    machine.start_keeper();
    let host = machine.host().await;
    std::fs::write(machine.workspace().join("go"), "").unwrap();
    let (_, stream) = host.ask(&Request::AttachExecution { execution: running.id }).await;
    let brought = finish(stream).await;
    assert_eq!(
        (brought.outcome(), brought.stdout.as_str()),
        (Outcome::Error, "early\nlate\n"),
        "{brought:?}"
    );
    assert_eq!(brought.error.unwrap().value, "5");
    assert_eq!(run_code(&host, "echo $X").await.stdout, "7\n");
}

#[tokio::test]
async fn code_that_ended_while_there_was_no_keeper_is_known_by_its_status() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let (running, mut stream) = begin(&host, bash("echo early; sleep 0.3; touch ended; (exit 6)")).await;
    until_output(&mut stream).await;
    drop((stream, host));
    machine.kill_keeper().await;
    within(async {
        while !machine.workspace().join("ended").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    machine.start_keeper();
    let host = machine.host().await;
    let (_, stream) = host.ask(&Request::AttachExecution { execution: running.id }).await;
    let brought = finish(stream).await;
    assert_eq!((brought.outcome(), brought.error.unwrap().value.as_str()), (Outcome::Error, "6"));
}

#[tokio::test]
async fn a_flood_has_an_end_and_its_status() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let brought = run_code(&host, "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end").await;
    assert_eq!(brought.outcome(), Outcome::Ok, "{}", brought.notes);
    assert!(brought.stdout.starts_with("xxx") && brought.stdout.ends_with("the end\n"));
}
