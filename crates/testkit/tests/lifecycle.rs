//! The life of jobs on the fake driver: their output, their end and their remains.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;

use sandyard_protocol::OutputStream;
use sandyard_sandbox::driver::Usage;
use sandyard_server::app::{FailureCode, InputFile, JobState, NewJob, RequestedLimits, SandboxState};
use sandyard_testkit::{TestYard, session, shell};

/// Returns the files that the job left. The host adds a folder of its own, which is left out.
fn names(zip: &std::path::Path) -> String {
    let script = "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1])\n\
                  print(sorted((n, z.read(n).decode()) for n in z.namelist() if not n.startswith('.sandyard/')))";
    let output = std::process::Command::new("python3").arg("-c").arg(script).arg(zip).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_job_runs_and_leaves_its_workspace() {
    let yard = TestYard::new().await.unwrap();
    let status = yard.run(shell("echo out; echo err >&2; echo kept > file.txt")).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    assert_eq!((status.stdout_tail.as_str(), status.stderr_tail.as_str()), ("out\n", "err\n"));
    assert_eq!(status.exit_code, Some(0));
    assert_eq!(status.isolation.effective.as_deref(), Some("fake"));
    assert!(
        status.started_at_ms.is_some() && status.finished_at_ms.is_some() && status.expires_at_ms.is_some()
    );
    let length = yard.yard.download(&yard.job(&status.id).await.unwrap()).await.unwrap().length;
    assert_eq!(yard.download(&status.id).await.unwrap().len() as u64, length);
    assert_eq!(names(&yard.job_folder(&status.id).join("output.zip")), "[('file.txt', 'kept\\n')]");
    assert_eq!(
        std::fs::read_to_string(yard.job_folder(&status.id).join("input.txt")).unwrap().lines().count(),
        1
    );
    yard.wait_world("the sandbox is gone", |world| world.markers().is_empty()).await.unwrap();
    let gone = yard.wait(&status.id, "closed", |status| status.sandbox == SandboxState::Gone).await.unwrap();
    assert_eq!(gone.state, JobState::Succeeded);
    assert!(!yard.job_folder(&status.id).join("workspace").exists());
    assert!(yard.world.breaches().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_and_environment_of_a_request_are_there() {
    let yard = TestYard::new().await.unwrap();
    let job = NewJob {
        files: vec![InputFile { path: "deep/er/data.bin".into(), bytes: vec![b'x'; 200_000] }],
        env: [("GREETING".to_owned(), "hello".to_owned())].into(),
        ..shell("echo $GREETING; wc -c < deep/er/data.bin; rm -r deep")
    };
    let status = yard.run(job).await.unwrap();
    assert_eq!(status.stdout_tail, "hello\n200000\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_is_told_in_words() {
    let yard = TestYard::new().await.unwrap();
    let failed = yard.run(shell("echo partial; exit 3")).await.unwrap();
    assert_eq!((failed.state, failed.exit_code), (JobState::Failed, Some(3)));
    assert_eq!(failed.reason.as_deref(), Some("exited with code 3"));
    assert_eq!(failed.error.unwrap().code, FailureCode::NonzeroExit);
    assert_eq!(failed.stdout_tail, "partial\n");

    let killed = yard.run(shell("kill -SEGV $$")).await.unwrap();
    assert_eq!(killed.reason.as_deref(), Some("killed by signal 11 (SIGSEGV)"));

    let limits = RequestedLimits { timeout_s: Some(1), ..shell("").limits };
    let slow = yard.run(NewJob { limits, ..shell("echo before; sleep 60") }).await.unwrap();
    assert_eq!((slow.state, slow.reason.as_deref()), (JobState::TimedOut, Some("timed out after 1 s")));
    assert_eq!(slow.stdout_tail, "before\n");
    assert!(yard.yard.download(&yard.job(&slow.id).await.unwrap()).await.is_ok());

    let limits = RequestedLimits { idle_timeout_s: Some(1), ..shell("").limits };
    let idle = yard.run(NewJob { limits, ..shell("sleep 60") }).await.unwrap();
    assert_eq!(idle.state, JobState::TimedOut);
    assert_eq!(idle.error.unwrap().code, FailureCode::IdleTimedOut);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_serves_tools_and_ends_succeeded_at_its_limit() {
    let yard = TestYard::new().await.unwrap();
    let limits = RequestedLimits { timeout_s: Some(2), ..session().limits };
    let id = yard.schedule(NewJob { limits, ..session() }).await.unwrap();
    yard.wait(&id, "live", |status| status.sandbox == SandboxState::Live).await.unwrap();
    let machine = yard.yard.machine(&yard.job(&id).await.unwrap()).await.unwrap();
    let mut writer = machine.write("made.txt", 2, None).await.unwrap();
    writer.send(b"hi").await.unwrap();
    writer.finish().await.unwrap();
    let status = yard.ended(&id).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    assert_eq!(names(&yard.job_folder(&id).join("output.zip")), "[('made.txt', 'hi')]");
    assert!(yard.yard.machine(&yard.job(&id).await.unwrap()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_sandbox_outlives_its_job_until_it_is_deleted() {
    let yard = TestYard::new().await.unwrap();
    let status = yard.run(NewJob { keep: true, ..shell("echo one > one") }).await.unwrap();
    assert_eq!((status.state, status.sandbox), (JobState::Succeeded, SandboxState::Live));
    let id = status.id;
    let machine = yard.yard.machine(&yard.job(&id).await.unwrap()).await.unwrap();
    assert_eq!(machine.stat("one").await.unwrap().size, 4);
    yard.yard.delete(&yard.job(&id).await.unwrap()).await.unwrap();
    assert!(yard.world.markers().is_empty());
    assert!(!yard.job_folder(&id).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_the_whole_life_without_a_gap() {
    let yard = TestYard::new().await.unwrap();
    let status = yard.run(shell("for i in 1 2 3 4 5; do echo line $i; sleep 0.03; done")).await.unwrap();
    let events = yard.events(&status.id, 0).await.unwrap();
    let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>());
    let states: Vec<&str> = events
        .iter()
        .filter(|event| event.kind == "state")
        .map(|event| event.data["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["queued", "starting", "running", "finishing", "succeeded"]);
    let text: String = events
        .iter()
        .filter(|event| event.kind == "stdout")
        .map(|event| event.data["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(text, "line 1\nline 2\nline 3\nline 4\nline 5\n");
    for after in ids {
        let rest = yard.events(&status.id, after).await.unwrap();
        assert_eq!(rest, events[usize::try_from(after).unwrap()..], "resumed after {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_flood_keeps_head_and_tail() {
    let cap = 4 * 1024 * 1024;
    let yard = TestYard::with(|config| config.output.stream_bytes = cap).await.unwrap();
    let status = yard.run(shell("echo first; yes | head -c 33554432; echo last")).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    assert!(status.truncated);
    assert_eq!(status.stdout_bytes, 33_554_432 + 11);
    assert!(status.stdout_tail.ends_with("y\nlast\n"));
    let log = yard.log(&status.id, OutputStream::Stdout).await.unwrap();
    let expected = yard
        .yard
        .logs(&yard.job(&status.id).await.unwrap(), OutputStream::Stdout)
        .await
        .unwrap()
        .length
        .unwrap();
    assert_eq!(log.len() as u64, expected);
    assert!(log.len() as u64 <= cap + 2 * 1024 * 1024, "{}", log.len());
    assert!(log.starts_with(b"first\ny\n") && log.ends_with(b"y\nlast\n"));
    let events = yard.events(&status.id, 0).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.kind == "truncated").count(), 1);
    assert_eq!(events.last().unwrap().id, events.len() as u64);
    yard.wait_world("the sandbox is gone", |world| world.markers().is_empty()).await.unwrap();
    let file = yard.job_folder(&status.id).join("logs/stdout.log");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while yard.job_folder(&status.id).join("logs/stdout").exists() {
        assert!(tokio::time::Instant::now() < deadline, "the chunks were not put into one file");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(std::fs::read(file).unwrap(), log);
    assert_eq!(yard.log(&status.id, OutputStream::Stdout).await.unwrap(), log, "read from the one file");
    assert_eq!(yard.events(&status.id, 0).await.unwrap(), events, "read from the one file");
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_bytes_that_are_no_text_come_back_as_they_were() {
    let yard = TestYard::new().await.unwrap();
    let status =
        yard.run(shell(r"printf '\377\000\033[31mred\r\n'; printf 'a%.0s' {1..100000}")).await.unwrap();
    assert!(status.stdout_tail.ends_with('a'));
    let log = yard.log(&status.id, OutputStream::Stdout).await.unwrap();
    assert!(log.starts_with(b"\xff\0\x1b[31mred\r\n"));
    assert_eq!(log.len(), 100_012);
}

/// A virtual machine's own count is gone with it.
#[tokio::test(flavor = "multi_thread")]
async fn usage_is_told_while_a_job_runs_and_after_its_machine_died() {
    let yard = TestYard::new().await.unwrap();
    let usage = Usage { cpu_s: 1.5, peak_memory_bytes: 7, ..Usage::default() };
    yard.world.script(|faults| faults.usage = usage);
    let id = yard.schedule(shell("sleep 600")).await.unwrap();
    let running = yard.wait(&id, "its usage", |status| status.usage.is_some()).await.unwrap();
    assert_eq!((running.state, running.usage), (JobState::Running, Some(usage)));
    for machine in yard.world.alive() {
        yard.world.kill(&machine).await;
    }
    let ended = yard.ended(&id).await.unwrap();
    assert_eq!((ended.state, ended.usage), (JobState::Failed, Some(usage)));
}
