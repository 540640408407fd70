//! Every form of request that the contract promises, and what comes back.

use serde_json::json;

use crate::yard::Yard;

#[tokio::test]
async fn a_shell_job_runs_and_tells_all() {
    let yard = Yard::start().await;
    let status = yard.run_shell("echo out; echo err >&2; id -un; pwd; echo made > file.txt").await;
    assert_eq!(status["state"], "succeeded", "{status}");
    assert_eq!(status["status"], "complete");
    assert_eq!(status["stdout"], "out\nagent\n/workspace\n");
    assert_eq!(status["stderr"], "err\n");
    assert_eq!(status["exit_code"], 0);
    assert_eq!(status["isolation"]["effective"], "native");
    assert_eq!(status["isolation"]["requested"], "any");
    let id = status["job_id"].as_str().unwrap();
    let events = yard.events(id).await;
    let ids: Vec<u64> = events.iter().map(|event| event.0).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>(), "ids have no gap");
    let states: Vec<_> =
        events.iter().filter(|event| event.1 == "state").map(|event| event.2["state"].clone()).collect();
    assert_eq!(states, ["queued", "starting", "running", "finishing", "succeeded"]);
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn submit_is_the_same_as_schedule_and_an_exit_code_is_told() {
    let yard = Yard::start().await;
    let answer = yard.post_json("/submit", &json!({"kind": "shell", "code": "echo partial; exit 7"})).await;
    let status = yard.wait_end(answer["job_id"].as_str().unwrap()).await;
    assert_eq!((&status["state"], &status["status"]), (&json!("failed"), &json!("error")));
    assert_eq!(status["exit_code"], 7);
    assert_eq!(status["stdout"], "partial\n");
    assert!(status["download_url"].is_string(), "a failed job can be downloaded: {status}");
    assert!(status["error"]["message"].is_string(), "{status}");
}

#[tokio::test]
async fn files_environment_and_limits_reach_the_job() {
    let yard = Yard::start().await;
    let status = yard
        .run(&json!({
            "kind": "shell",
            "name": "with everything",
            "code": "cat a/b.txt; base64 raw.bin; echo $GREETING; ulimit -n",
            "files": {"a/b.txt": "text\n", "raw.bin": {"base64": "AAEC"}},
            "env": {"GREETING": "hello"},
            "limits": {"memory_mib": 256, "cpus": 1, "pids": 64, "disk_mib": 256, "timeout_s": 60},
        }))
        .await;
    assert_eq!(status["state"], "succeeded", "{status}");
    assert_eq!(status["name"], "with everything");
    assert!(status["stdout"].as_str().unwrap().starts_with("text\nAAEC\nhello\n"), "{status}");
}

#[tokio::test]
async fn the_same_idempotency_key_gives_the_same_job() {
    let yard = Yard::start().await;
    let send = |code: &'static str| {
        let request = yard.client.post(format!("{}/schedule", yard.url)).header("Idempotency-Key", "k-1");
        request.json(&json!({"kind": "shell", "code": code})).send()
    };
    let first: serde_json::Value = send("echo 1").await.unwrap().json().await.unwrap();
    let again: serde_json::Value = send("echo 1").await.unwrap().json().await.unwrap();
    assert_eq!(first["job_id"], again["job_id"]);
    assert_eq!(send("echo 2").await.unwrap().status(), 409);
    let jobs = yard.get_json("/jobs").await;
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn cancel_ends_a_job_and_keeps_its_work() {
    let yard = Yard::start().await;
    let id = yard.shell_job("echo kept > kept.txt; echo ready; sleep 1000").await;
    yard.wait_for(&id, |status| status["stdout"] == "ready\n").await;
    yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "cancelled", "{status}");
    yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    assert_eq!(yard.status(&id).await["state"], "cancelled");
    assert_eq!(crate::downloads::read_entry(&yard.download(&id).await, "kept.txt"), b"kept\n");
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn a_time_limit_ends_the_job_with_its_partial_output() {
    let yard = Yard::start().await;
    let status = yard
        .run(&json!({"kind": "shell", "code": "echo before; sleep 1000", "limits": {"timeout_s": 2}}))
        .await;
    assert_eq!(status["state"], "timed_out", "{status}");
    assert_eq!(status["stdout"], "before\n");
    let idle = json!({"kind": "shell", "code": "echo x; sleep 1000", "limits": {"idle_timeout_s": 1}});
    assert_eq!(yard.run(&idle).await["state"], "timed_out");
}

#[tokio::test]
async fn delete_leaves_nothing() {
    let yard = Yard::start().await;
    let id = yard.shell_job("sleep 1000").await;
    yard.wait_for(&id, |status| status["state"] == "running").await;
    yard.delete(&id).await;
    assert_eq!(yard.get(&format!("/status/{id}")).await.status(), 404);
    yard.expect_no_leftovers().await;
    assert!(!yard.data().join("jobs").join(&id).exists());
}

#[tokio::test]
async fn a_session_that_reaches_its_limit_succeeds() {
    let yard = Yard::start().await;
    let status = yard.run(&json!({"kind": "session", "limits": {"timeout_s": 2}})).await;
    assert_eq!(status["state"], "succeeded", "{status}");
}

#[tokio::test]
async fn events_resume_where_a_client_left_off() {
    let yard = Yard::start().await;
    let id = yard.shell_job("for i in 1 2 3; do echo $i; sleep 0.1; done").await;
    yard.wait_end(&id).await;
    let all = yard.events(&id).await;
    let request = yard.client.get(format!("{}/jobs/{id}/events", yard.url)).header("Last-Event-ID", "2");
    let rest = crate::yard::parse_events(&request.send().await.unwrap().text().await.unwrap());
    assert_eq!(rest, all[2..]);
}

#[tokio::test]
async fn a_polite_stop_leaves_jobs_running() {
    let mut yard = Yard::start().await;
    let id = yard.shell_job("for i in $(seq 30); do echo $i; sleep 0.1; done").await;
    yard.wait_for(&id, |status| status["state"] == "running").await;
    yard.stop().await;
    yard.serve().await;
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let expected: String = (1..=30).map(|number| format!("{number}\n")).collect();
    assert_eq!(status["stdout"], expected);
}

#[tokio::test]
async fn code_of_many_mebibytes_runs() {
    let yard = Yard::start().await;
    let code = format!(": '{}'\necho ran \"$(wc -c < \"$0\")\"", "\"\n".repeat(3 << 20));
    let status = yard.run_shell(&code).await;
    assert_eq!(status["state"], "succeeded", "{}", status["error"]);
    assert_eq!(status["stdout"], format!("ran {}\n", code.len()));
}
