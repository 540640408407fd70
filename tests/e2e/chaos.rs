//! Kill -9 at any moment: each job reaches one terminal state, runs at most once, and nothing is left behind.

use std::time::Duration;

use serde_json::{Value, json};

use crate::yard::{Yard, is_terminal};

/// The soak takes minutes; `make test-all` asks for it.
const SOAK: &str = "SANDYARD_SOAK";

/// A small generator with a fixed seed, so that a failing run can be repeated.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Marks each run in a file of its own, so that a second run would show; outlives a few kills of the server.
const STEADY: &str =
    "echo ran >> /workspace/runs; for i in $(seq 10); do echo line $i; sleep 0.0$((RANDOM % 9 + 1)); done";

async fn survive(seed: u64, kills: u32, jobs: u32) {
    let mut yard = Yard::start().await;
    let mut random = Seeded(seed);
    let mut ids = Vec::new();
    for round in 0..kills {
        let share = jobs / kills + u32::from(round < jobs % kills);
        for _ in 0..share {
            ids.push(schedule_surely(&yard, &json!({"kind": "shell", "code": STEADY}), ids.len()).await);
        }
        tokio::time::sleep(Duration::from_millis(random.below(700))).await;
        yard.crash_and_serve().await;
    }
    for id in &ids {
        let status = yard.wait_end(id).await;
        check(&yard, id, &status).await;
    }
    yard.expect_no_leftovers().await;
}

/// A client retries with the same key, as it would in life.
async fn schedule_surely(yard: &Yard, body: &Value, number: usize) -> String {
    let request = yard
        .client
        .post(format!("{}/schedule", yard.url))
        .header("Idempotency-Key", format!("chaos-{number}"));
    let answer: Value = request.json(body).send().await.unwrap().json().await.unwrap();
    answer["job_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn check(yard: &Yard, id: &str, status: &Value) {
    assert_eq!(status["state"], "succeeded", "seeded crash lost a job: {status}\n{}", yard.log());
    let expected: String = (1..=10).map(|number| format!("line {number}\n")).collect();
    assert_eq!(status["stdout"], expected, "{id}");
    let last = crate::audit::records(yard, id).await.pop().unwrap();
    assert_eq!(last["facts"]["state"], "succeeded", "{id}: {last}");
    let events = yard.events(id).await;
    let ids: Vec<u64> = events.iter().map(|event| event.0).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>(), "gap in the events of {id}");
    let terminal = events.iter().filter(|event| event.1 == "state" && is_terminal(&event.2["state"])).count();
    assert_eq!(terminal, 1, "{events:?}");
    let zip = yard.download(id).await;
    assert_eq!(crate::downloads::read_entry(&zip, "runs"), b"ran\n", "{id} ran more than once");
}

#[tokio::test]
async fn l1_ten_kills_of_the_server_lose_nothing() {
    survive(20_261_115, 10, 30).await;
}

#[tokio::test]
async fn l2_soak_fifty_kills_over_two_hundred_jobs() {
    if std::env::var_os(SOAK).is_none() {
        eprintln!("skipped: set {SOAK}=1 (make test-all)");
        return;
    }
    for seed in [1, 2, 3, 5, 8] {
        survive(seed, 10, 40).await;
    }
}

#[tokio::test]
async fn l4_a_server_stopped_past_its_lease_harms_nothing() {
    let yard = Yard::start_with(&["--lease-s", "2"]).await;
    let id = yard.shell_job("echo ran >> runs; for i in $(seq 50); do echo line $i; sleep 0.1; done").await;
    yard.wait_for(&id, |status| status["state"] == "running").await;
    yard.signal_server(rustix::process::Signal::STOP);
    tokio::time::sleep(Duration::from_secs(4)).await;
    yard.signal_server(rustix::process::Signal::CONT);
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let expected: String = (1..=50).map(|number| format!("line {number}\n")).collect();
    assert_eq!(status["stdout"], expected);
    assert_eq!(crate::downloads::read_entry(&yard.download(&id).await, "runs"), b"ran\n");
    yard.expect_no_leftovers().await;
}

/// Keeper is the machine's process with our binary and the role `keeper`, seen from the host.
fn keepers(yard: &Yard) -> Vec<rustix::process::Pid> {
    let mut found = Vec::new();
    for pid in yard.sandbox_pids() {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if arguments.split(|byte| *byte == 0).any(|argument| argument == b"keeper") {
            found.push(rustix::process::Pid::from_raw(pid).unwrap());
        }
    }
    found
}

#[tokio::test]
async fn kill_of_keeper_loses_no_output() {
    let yard = Yard::start().await;
    let id = yard.shell_job("for i in $(seq 300); do echo line $i; sleep 0.01; done").await;
    yard.wait_for(&id, |status| status["state"] == "running").await;
    for _ in 0..5 {
        for keeper in keepers(&yard) {
            let _ = rustix::process::kill_process(keeper, rustix::process::Signal::KILL);
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let expected: String = (1..=300).map(|number| format!("line {number}\n")).collect();
    assert_eq!(yard.logs(&id, "stdout").await, expected);
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn l18_the_deadline_holds_while_no_server_runs() {
    let mut yard = Yard::start().await;
    let id = yard.schedule(&json!({"kind": "shell", "code": "while :; do date +%s > next; mv next beat; sleep 0.1; done", "limits": {"timeout_s": 3}})).await;
    yard.wait_for(&id, |status| status["state"] == "running").await;
    yard.crash().await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let stopped = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    yard.serve().await;
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "timed_out", "{status}");
    let beat = crate::downloads::read_entry(&yard.download(&id).await, "beat");
    let last: u64 = String::from_utf8(beat).unwrap().trim().parse().unwrap();
    assert!(last + 2 < stopped, "the job went on until {last}, the server came back at {stopped}");
}

#[tokio::test]
async fn l22_a_machine_that_dies_fails_its_job_and_keeps_its_work() {
    let yard = Yard::start().await;
    let id = yard.shell_job("echo kept > kept; sync; echo ready; sleep 1000").await;
    yard.wait_for(&id, |status| status["stdout"] == "ready\n").await;
    for pid in yard.sandbox_pids() {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::KILL,
        );
    }
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "failed", "{status}");
    assert_eq!(crate::downloads::read_entry(&yard.download(&id).await, "kept"), b"kept\n");
    yard.expect_no_leftovers().await;
}
