//! Tasks whose loop, keeper, server or whole machine is killed: each step happens once, or is told as interrupted.
//!
//! `make test` kills at some moments; the soaks of `make test-all` kill each of the four at every one of thirty steps.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::downloads::read_entry;
use crate::recording::{finish, shell};
use crate::task::{of_kind, yard};
use crate::yard::Yard;

const STEPS: usize = 30;

/// Who dies.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Loop,
    Keeper,
    Server,
    Machine,
}

impl Victim {
    async fn kill(self, yard: &mut Yard) {
        match self {
            Self::Loop => kill(&pids(yard, b"sandyard-agent")),
            Self::Keeper => kill(&pids(yard, b"keeper")),
            Self::Server => yard.crash_and_serve().await,
            Self::Machine => kill(&yard.sandbox_pids()),
        }
    }
}

/// Host pids of a program in this yard's sandboxes, by a word of its command line.
fn pids(yard: &Yard, word: &[u8]) -> Vec<i32> {
    let is_it = |pid: &i32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == word)
    };
    yard.sandbox_pids().into_iter().filter(is_it).collect()
}

fn kill(pids: &[i32]) {
    for pid in pids {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(*pid).unwrap(),
            rustix::process::Signal::KILL,
        );
    }
}

/// Thirty steps that each leave a mark, and take long enough to be killed in the middle.
fn thirty_steps() -> Vec<Vec<Value>> {
    let mut turns: Vec<Vec<Value>> =
        (1..=STEPS).map(|step| vec![shell(&format!("echo step {step} >> log; sleep 0.1"))]).collect();
    turns.push(vec![finish("Thirty steps.")]);
    turns
}

async fn begin(yard: &Yard) -> String {
    let id = yard.schedule(&json!({ "task": "Thirty steps" })).await;
    yard.wait_for(&id, |status| status["state"] == "running").await;
    id
}

/// Each step left its mark once, or is told as interrupted.
async fn check_thirty_steps(yard: &Yard, id: &str) {
    let status = yard.wait_end(id).await;
    assert_eq!(status["state"], "succeeded", "{status}\n{}", yard.log());
    let log = String::from_utf8(read_entry(&yard.download(id).await, "log")).unwrap();
    let mut marks: BTreeMap<&str, usize> = BTreeMap::new();
    for line in log.lines() {
        *marks.entry(line).or_default() += 1;
    }
    let events = yard.events(id).await;
    let interrupted = of_kind(&events, "tool").filter(|tool| tool["interrupted"] == true).count();
    assert!(marks.values().all(|count| *count == 1), "a step ran twice: {marks:?}");
    assert!(marks.len() + interrupted >= STEPS, "{} marks, {interrupted} interrupted", marks.len());
    let told = of_kind(&events, "tool").count();
    assert_eq!(told, STEPS, "each step is told once");
}

#[tokio::test]
async fn kills_of_loop_keeper_and_server_repeat_nothing() {
    let (_recording, mut yard) = yard(&thirty_steps()).await;
    let id = begin(&yard).await;
    for victim in [Victim::Loop, Victim::Keeper, Victim::Server].into_iter().cycle().take(9) {
        tokio::time::sleep(Duration::from_millis(350)).await;
        victim.kill(&mut yard).await;
    }
    check_thirty_steps(&yard, &id).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn a_task_goes_on_in_another_machine() {
    let (_recording, mut yard) = yard(&thirty_steps()).await;
    let id = begin(&yard).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    Victim::Machine.kill(&mut yard).await;
    check_thirty_steps(&yard, &id).await;
    yard.expect_no_leftovers().await;
}

/// Returns when the mark of that step is there, or the job is past it.
async fn reach(yard: &Yard, id: &str, step: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let log = yard.get(&format!("/jobs/{id}/files/log")).await.text().await.unwrap_or_default();
        if log.lines().filter(|line| line.starts_with("step ")).count() >= step {
            return;
        }
        assert!(Instant::now() < deadline, "step {step} does not come\n{}", yard.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One job for each step; the moment within the step moves on with it.
async fn kill_at_every_step(victim: Victim) {
    if std::env::var_os("SANDYARD_SOAK").is_none() {
        eprintln!("skipped: a soak of minutes, run by `make test-all`");
        return;
    }
    let (_recording, mut yard) = yard(&thirty_steps()).await;
    for step in 1..=STEPS {
        let id = begin(&yard).await;
        reach(&yard, &id, step).await;
        let moment = u64::try_from(step * 37 % 120).unwrap();
        tokio::time::sleep(Duration::from_millis(moment)).await;
        victim.kill(&mut yard).await;
        eprintln!("{victim:?} killed {moment} ms after the mark of step {step}");
        check_thirty_steps(&yard, &id).await;
    }
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn soak_the_loop_is_killed_at_every_step() {
    kill_at_every_step(Victim::Loop).await;
}

#[tokio::test]
async fn soak_keeper_is_killed_at_every_step() {
    kill_at_every_step(Victim::Keeper).await;
}

#[tokio::test]
async fn soak_the_server_is_killed_at_every_step() {
    kill_at_every_step(Victim::Server).await;
}

#[tokio::test]
async fn soak_the_machine_is_killed_at_every_step() {
    kill_at_every_step(Victim::Machine).await;
}
