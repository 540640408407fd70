//! The loop of a task: its socket, what keeper does for it, and how it is kept running.

use std::os::unix::fs::PermissionsExt as _;

use sandyard_protocol::{AGENT_PROGRAM, AgentRequest, GuestErrorCode, StartProcess};
use tokio::net::UnixStream;

use super::*;

impl TestMachine {
    /// Puts a script in the loop's place.
    fn loop_is(&self, script: &str) {
        let path = self.folder.path().join(AGENT_PROGRAM);
        std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Asks as the loop would.
    async fn ask_locally(&self, request: &AgentRequest) -> Framed<UnixStream> {
        let socket = self.folder.path().join("agent.sock");
        let stream = within(async {
            loop {
                match UnixStream::connect(&socket).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        });
        let mut stream = Framed::new(stream.await, limits());
        stream.send_message(request).await.unwrap();
        stream
    }
}

fn task() -> BeginJob {
    BeginJob {
        work: JobWork::Task,
        env: BTreeMap::new(),
        timeout_ms: 60_000,
        idle_timeout_ms: None,
        keep: false,
        trust: None,
    }
}

#[tokio::test]
async fn the_loop_has_the_hosts_tools_and_not_its_power() {
    let machine = TestMachine::start();
    let start = StartProcess { argv: vec!["echo".into(), "hello".into()], ..StartProcess::default() };
    let mut stream = machine.ask_locally(&AgentRequest::Tool(Request::StartProcess(start))).await;
    assert!(matches!(stream.receive_message().await.unwrap(), Reply::Process(_)));
    let Some(Frame::Data(chunk)) = within(stream.receive()).await.unwrap() else { panic!("no output") };
    assert_eq!(OutputChunk::decode(chunk).unwrap().bytes.as_ref(), b"hello\n");
    for request in [
        Request::EndJob { reason: EndReason::Cancelled, grace_ms: 0 },
        Request::BeginJob(task()),
        Request::PauseJob,
        Request::ResumeJob { timeout_ms: 1 },
        Request::Export { path: String::new() },
        Request::ConnectPort { port: 80 },
    ] {
        let mut stream = machine.ask_locally(&AgentRequest::Tool(request)).await;
        let Reply::Failed(error) = within(stream.receive_message()).await.unwrap() else { panic!("served") };
        assert_eq!(error.code, GuestErrorCode::BadRequest);
    }
}

#[tokio::test]
async fn desk_and_models_are_carried_to_the_host_once_there_is_a_link() {
    let mut machine = TestMachine::start();
    let mut loop_side = machine.ask_locally(&AgentRequest::Desk).await;
    loop_side.send_message(&"early").await.unwrap();
    let link = machine.link().await;
    // The first stream is that of events.
    let mut host_side = loop {
        let stream = within(link.accept()).await.unwrap();
        let mut stream = Framed::new(stream, limits());
        if stream.receive_message::<GuestRequest>().await.unwrap() == GuestRequest::Desk {
            break stream;
        }
    };
    assert_eq!(host_side.receive_message::<String>().await.unwrap(), "early");
    host_side.send_message(&"answer").await.unwrap();
    assert_eq!(within(loop_side.receive_message::<String>()).await.unwrap(), "answer");
    link.close();
    assert!(within(loop_side.receive()).await.is_ok_and(|frame| frame.is_none()), "it ends with the link");
}

#[tokio::test]
async fn a_loop_that_ends_ends_the_job_and_one_that_is_killed_is_started_again() {
    let mut machine = TestMachine::start();
    // Dies twice, then is done.
    machine.loop_is("echo run >> runs; [ $(wc -l < runs) -ge 3 ] && exit 0; kill -9 $$");
    let mut host = machine.host().await;
    host.begin(task()).await;
    let exit = host.follow(&mut HostRecord::default()).await;
    assert_eq!((exit.code, exit.reason), (0, EndReason::Own));
    let runs = std::fs::read_to_string(machine.workspace().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 3);
}

#[tokio::test]
async fn a_loop_that_gives_up_is_not_started_again_and_one_that_never_lasts_ends_the_job() {
    for (script, code, starts) in [("echo run >> runs; exit 1", 1, 1), ("echo run >> runs; exit 75", 75, 6)] {
        let mut machine = TestMachine::start();
        machine.loop_is(script);
        let mut host = machine.host().await;
        host.begin(task()).await;
        assert_eq!(host.follow(&mut HostRecord::default()).await.code, code);
        let runs = std::fs::read_to_string(machine.workspace().join("runs")).unwrap();
        assert_eq!(runs.lines().count(), starts, "{script}");
    }
}

#[tokio::test]
async fn the_loop_outlives_keeper_and_the_host_can_end_it() {
    let mut machine = TestMachine::start();
    machine.loop_is("echo run >> runs; exec sleep 1000");
    let host = machine.host().await;
    host.begin(task()).await;
    within(async {
        while !machine.workspace().join("runs").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    machine.kill_keeper().await;
    machine.start_keeper();
    let mut host = machine.host().await;
    host.ask(&Request::EndJob { reason: EndReason::Cancelled, grace_ms: 100 }).await;
    assert_eq!(host.follow(&mut HostRecord::default()).await.reason, EndReason::Cancelled);
    assert_eq!(std::fs::read_to_string(machine.workspace().join("runs")).unwrap(), "run\n", "started once");
}
