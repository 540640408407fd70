//! The job's life: once, whatever happens.

use std::time::Instant;

use sandyard_protocol::{ProcessId, ProcessInfo};

use super::*;

#[tokio::test]
async fn a_shell_job_runs_in_the_workspace_and_tells_its_end_after_its_output() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    let mut begin = shell("pwd; echo \"$GREETING\"; echo bad >&2; exit 3");
    begin.env.insert("GREETING".into(), "hello".into());
    assert_eq!(host.begin(begin).await, JobProgress::Running);
    let mut record = HostRecord::default();
    assert_eq!(host.follow(&mut record).await, own(3));
    assert_eq!(record.kinds(), ["started", "ended"]);
    let expected = format!("{}\nhello\n", machine.workspace().canonicalize().unwrap().display());
    assert_eq!((text(&record.stdout), text(&record.stderr)), (expected.as_str(), "bad\n"));
    assert!(!machine.folder.path().join("scripts/job.sh").exists());
}

#[tokio::test]
async fn a_job_is_begun_once_however_often_it_is_asked_for() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    let counting = "echo x >> count; sleep 0.3";
    for _ in 0..5 {
        assert_eq!(host.begin(shell(counting)).await, JobProgress::Running);
    }
    let mut record = HostRecord::default();
    host.follow(&mut record).await;
    machine.kill_keeper().await;
    machine.start_keeper();
    let host = machine.host().await;
    assert_eq!(host.begin(shell(counting)).await, JobProgress::Ended(own(0)));
    assert_eq!(std::fs::read_to_string(machine.workspace().join("count")).unwrap(), "x\n");
}

#[tokio::test]
async fn a_script_longer_than_any_argument_runs() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    let script = format!("# {}\necho done", "x".repeat(4 * 1024 * 1024));
    host.begin(shell(&script)).await;
    let mut record = HostRecord::default();
    assert_eq!(host.follow(&mut record).await, own(0));
    assert_eq!(text(&record.stdout), "done\n");
}

#[tokio::test]
async fn a_job_that_was_noted_and_never_forked_is_started_by_the_next_keeper() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    host.begin(shell("echo begun; sleep 60")).await;
    drop(host);
    machine.kill_keeper().await;
    // As if the machine's spawner had never been asked.
    machine.processes.kill_everything().await.unwrap();
    machine.processes.forget(&ProcessId::main()).await.unwrap();
    machine.start_keeper();
    let mut host = machine.host().await;
    host.ask(&Request::EndJob { reason: EndReason::Cancelled, grace_ms: 0 }).await;
    let mut record = HostRecord::default();
    assert_eq!(host.follow(&mut record).await.reason, EndReason::Cancelled);
    assert!(!record.kinds().contains(&"note"), "{:?}", record.events);
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends_by_its_idle_limit() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    let idle =
        BeginJob { work: JobWork::Session, timeout_ms: 60_000, idle_timeout_ms: Some(700), ..shell("") };
    host.begin(idle).await;
    let used = tokio::time::Instant::now();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        host.ask(&Request::ListProcesses).await;
    }
    let mut record = HostRecord::default();
    assert_eq!(host.follow(&mut record).await.reason, EndReason::IdleTimeout);
    assert!(used.elapsed() >= Duration::from_millis(1800), "use kept it alive: {:?}", used.elapsed());
}

#[tokio::test]
async fn an_end_that_came_while_no_keeper_lived_is_told() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    host.begin(shell("read -t 0.5 < <(sleep 5); echo late; exit 9")).await;
    let mut record = HostRecord::default();
    host.resume(&record).await;
    host.follow_one(&mut record).await;
    drop(host);
    machine.kill_keeper().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    machine.start_keeper();
    assert_eq!(machine.host().await.follow(&mut record).await, own(9));
    assert_eq!(text(&record.stdout), "late\n");
    assert_eq!(record.kinds(), ["started", "restarted", "ended"]);
}

#[tokio::test]
async fn time_limits_end_a_job_and_keep_its_output() {
    for (total, idle, code, reason) in [
        (700, None, "echo partial; while :; do sleep 0.1; echo -n .; done", EndReason::Timeout),
        (60_000, Some(400), "echo partial; sleep 60", EndReason::IdleTimeout),
    ] {
        let mut machine = TestMachine::start();
        let mut host = machine.host().await;
        host.begin(BeginJob { timeout_ms: total, idle_timeout_ms: idle, ..shell(code) }).await;
        let mut record = HostRecord::default();
        let exit = host.follow(&mut record).await;
        assert_eq!((exit.reason, exit.signal), (reason, Some(15)), "{code}");
        assert!(record.stdout.starts_with(b"partial\n"));
    }
}

#[tokio::test]
async fn the_clocks_of_a_job_that_waits_stand_still_over_a_restart_too() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let limits = BeginJob { timeout_ms: 1000, idle_timeout_ms: Some(900), ..shell("sleep 60") };
    host.begin(limits).await;
    host.ask(&Request::PauseJob).await;
    drop(host);
    machine.kill_keeper().await;
    machine.start_keeper();
    let mut host = machine.host().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let resumed = Instant::now();
    assert_eq!(host.ask(&Request::ResumeJob { timeout_ms: 600 }).await.0, Reply::Job(JobProgress::Running));
    // Again is harmless, and gives no more time.
    host.ask(&Request::ResumeJob { timeout_ms: 60_000 }).await;
    assert_eq!(host.follow(&mut HostRecord::default()).await.reason, EndReason::Timeout);
    assert!(resumed.elapsed() >= Duration::from_millis(500), "{:?}", resumed.elapsed());
}

#[tokio::test]
async fn a_time_limit_holds_over_a_restart() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let began = Instant::now();
    host.begin(BeginJob { timeout_ms: 1500, ..shell("sleep 60") }).await;
    drop(host);
    machine.kill_keeper().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    machine.start_keeper();
    let exit = machine.host().await.follow(&mut HostRecord::default()).await;
    assert_eq!(exit.reason, EndReason::Timeout);
    assert!(began.elapsed() < Duration::from_secs(4), "the clock began again");
}

#[tokio::test]
async fn a_job_that_ignores_sigterm_is_killed_after_its_grace() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    host.begin(shell("trap '' TERM; echo ready; while :; do sleep 0.1; done")).await;
    let mut record = HostRecord::default();
    host.resume(&record).await;
    while record.stdout.is_empty() {
        host.follow_one(&mut record).await;
    }
    let end = Request::EndJob { reason: EndReason::Cancelled, grace_ms: 200 };
    assert_eq!(host.ask(&end).await.0, Reply::Job(JobProgress::Running));
    let exit = within(async {
        loop {
            if let Some(exit) = host.follow_one(&mut record).await {
                return exit;
            }
        }
    })
    .await;
    assert_eq!(exit, Exit { code: 137, signal: Some(9), reason: EndReason::Cancelled });
    assert!(matches!(host.ask(&end).await.0, Reply::Job(JobProgress::Ended(_))));
}

#[tokio::test]
async fn ending_a_job_survives_a_restart() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    host.begin(shell("trap '' TERM; while :; do sleep 0.1; done")).await;
    host.ask(&Request::EndJob { reason: EndReason::Cancelled, grace_ms: 1000 }).await;
    drop(host);
    machine.kill_keeper().await;
    machine.start_keeper();
    let exit = machine.host().await.follow(&mut HostRecord::default()).await;
    assert_eq!(exit.reason, EndReason::Cancelled);
}

#[tokio::test]
async fn a_background_process_goes_down_with_the_job_unless_kept() {
    for keep in [false, true] {
        let mut machine = TestMachine::start();
        let mut host = machine.host().await;
        let code = "(sleep 0.6; touch survived; echo from the background) & echo out";
        host.begin(BeginJob { keep, ..shell(code) }).await;
        let mut record = HostRecord::default();
        let began = Instant::now();
        assert_eq!(host.follow(&mut record).await, own(0));
        assert!(began.elapsed() < Duration::from_millis(500), "the end waited for the background");
        assert_eq!(text(&record.stdout), "out\n");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(machine.workspace().join("survived").exists(), keep);
    }
}

#[tokio::test]
async fn a_session_lasts_until_its_time_or_its_end() {
    let session = |timeout_ms| BeginJob { work: JobWork::Session, timeout_ms, ..shell("") };
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    host.begin(session(300)).await;
    assert_eq!(host.follow(&mut HostRecord::default()).await.reason, EndReason::Timeout);

    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    host.begin(session(60_000)).await;
    host.ask(&Request::EndJob { reason: EndReason::Cancelled, grace_ms: 0 }).await;
    assert_eq!(host.follow(&mut HostRecord::default()).await.reason, EndReason::Cancelled);
}

#[tokio::test]
async fn a_job_that_can_not_start_ends_with_the_reason() {
    let mut machine = TestMachine::start();
    std::fs::remove_dir(machine.workspace()).unwrap();
    let mut host = machine.host().await;
    host.begin(shell("echo hi")).await;
    let mut record = HostRecord::default();
    assert_eq!(host.follow(&mut record).await, own(126));
    assert_eq!(record.kinds(), ["note", "ended"]);
}

#[tokio::test]
async fn the_job_s_process_is_listed_and_can_be_attached_to() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    host.begin(shell("echo hi; sleep 0.3")).await;
    host.follow(&mut HostRecord::default()).await;
    let attach = Request::AttachProcess { process: ProcessId::main(), from: OutputOffsets::default() };
    let (reply, mut stream) = host.ask(&attach).await;
    assert!(matches!(reply, Reply::Process(ProcessInfo { exit: Some(_), .. })), "{reply:?}");
    assert_eq!(data(rest(&mut stream).await)[OutputChunk::HEADER_BYTES..], *b"hi\n");
    machine.kill_keeper().await;
    machine.start_keeper();
    let (reply, _) = machine.host().await.ask(&attach).await;
    assert!(matches!(reply, Reply::Process(ProcessInfo { exit: Some(_), .. })), "{reply:?}");
}
