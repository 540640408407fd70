//! Jobs that want too much end in the right state, with a reason in words, and harm nobody else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::yard::Yard;

/// Runs a hostile job beside a peaceful one and returns its status.
async fn beside_a_neighbour(yard: &Yard, hostile: Value) -> Value {
    let neighbour = yard.shell_job("for i in $(seq 20); do echo $i; sleep 0.1; done").await;
    let status = yard.run(&hostile).await;
    let neighbour = yard.wait_end(&neighbour).await;
    assert_eq!(neighbour["state"], "succeeded", "the neighbour suffered: {neighbour}");
    status
}

fn reason(status: &Value) -> String {
    format!("{} {}", status["reason"], status["error"])
}

#[tokio::test]
async fn r1_a_fork_bomb_meets_the_process_limit() {
    let yard = Yard::start().await;
    let bomb = json!({"kind": "shell", "code": "echo before > kept; :(){ :|:& };:; wait; sleep 1000",
        "limits": {"pids": 64, "timeout_s": 5, "memory_mib": 256}});
    let status = beside_a_neighbour(&yard, bomb).await;
    assert!(["failed", "timed_out"].iter().any(|state| status["state"] == *state), "{status}");
    assert!(reason(&status).contains("process"), "{status}");
    let zip = yard.download(status["job_id"].as_str().unwrap()).await;
    assert_eq!(crate::downloads::read_entry(&zip, "kept"), b"before\n");
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn r2_a_memory_hog_is_stopped_alone() {
    let yard = Yard::start().await;
    let hog = json!({"kind": "shell", "code": "echo before > kept; python3 -c 'x=[bytearray(1<<20) for _ in range(4096)]'",
        "limits": {"memory_mib": 128}});
    let status = beside_a_neighbour(&yard, hog).await;
    assert_eq!(status["state"], "failed", "{status}");
    assert!(reason(&status).contains("memory"), "{status}");
    let zip = yard.download(status["job_id"].as_str().unwrap()).await;
    assert_eq!(crate::downloads::read_entry(&zip, "kept"), b"before\n");
}

#[tokio::test]
async fn r5_a_disk_filler_meets_its_own_wall() {
    let yard = Yard::start().await;
    let code =
        "echo before > kept; head -c 2G /dev/zero > big; code=$?; rm big; echo after >> kept; exit $code";
    let status =
        beside_a_neighbour(&yard, json!({"kind": "shell", "code": code, "limits": {"disk_mib": 128}})).await;
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["stderr"].as_str().unwrap().contains("No space left"), "{status}");
    let zip = yard.download(status["job_id"].as_str().unwrap()).await;
    assert_eq!(crate::downloads::read_entry(&zip, "kept"), b"before\nafter\n");
}

#[tokio::test]
async fn r6_an_inode_filler_meets_its_own_wall() {
    let yard = Yard::start().await;
    let code = "python3 -c \"\nfor i in range(2000000): open(str(i),'w').close()\"";
    let status =
        beside_a_neighbour(&yard, json!({"kind": "shell", "code": code, "limits": {"disk_mib": 64}})).await;
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["stderr"].as_str().unwrap().contains("No space left"), "{status}");
    assert!(status["download_url"].is_string());
}

#[tokio::test]
async fn r15_a_job_that_ignores_sigterm_ends_all_the_same() {
    let yard = Yard::start().await;
    let code = "trap '' TERM; (trap '' TERM; setsid sleep 1000 &); echo ready; while :; do sleep 1; done";
    let id = yard.shell_job(code).await;
    yard.wait_for(&id, |status| status["stdout"] == "ready\n").await;
    yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    assert_eq!(yard.wait_end(&id).await["state"], "cancelled");
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn r9_two_gigabytes_of_output_keep_head_and_tail_in_flat_memory() {
    let yard = Yard::start_with(&["--output-cap-mib", "64"]).await;
    let before = resident_kib(yard.server_pid());
    let id = yard.shell_job("echo HEAD; head -c 2000000000 /dev/zero | tr '\\0' x; echo; echo TAIL").await;
    let mut most = before;
    loop {
        let status = yard.get_json(&format!("/status/{id}?fields=state")).await;
        most = most.max(resident_kib(yard.server_pid()));
        if crate::yard::is_terminal(&status["state"]) {
            assert_eq!(status["state"], "succeeded");
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(most < before + 100 * 1024, "resident memory rose from {before} to {most} KiB");
    let logs = yard.logs(&id, "stdout").await;
    assert!(logs.starts_with("HEAD\n"), "the head is kept");
    assert!(logs.ends_with("\nTAIL\n"), "the tail is kept");
    assert!(logs.len() < 70 * 1024 * 1024, "{} bytes kept", logs.len());
    assert!(yard.events(&id).await.iter().any(|event| event.1 == "truncated"), "the loss is told");
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
