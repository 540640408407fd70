//! Jobs: status, waiting, lists, events, logs, downloads.

use sandyard_server::http::ServeLimits;
use sandyard_testkit::TestYard;
use serde_json::{Value, json};

use crate::client::{Served, open};

fn events(text: &str) -> Vec<(u64, String, Value)> {
    let field =
        |block: &str, name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    text.split("\n\n")
        .filter_map(|block| {
            let data = serde_json::from_str(&field(block, "data: ")?).unwrap();
            Some((field(block, "id: ")?.parse().unwrap(), field(block, "event: ")?, data))
        })
        .collect()
}

#[tokio::test]
async fn a_shell_job_tells_all() {
    let served = Served::start().await;
    let reply =
        served.post("/submit", &json!({"kind": "shell", "code": "echo out; echo err >&2; exit 7"})).await;
    let answer = reply.json();
    let id = answer["job_id"].as_str().unwrap();
    assert_eq!((reply.status, &answer["status"]), (202, &json!("pending")));
    assert_eq!(answer["status_url"], json!(format!("/status/{id}")));
    assert_eq!(answer["events_url"], json!(format!("/jobs/{id}/events")));
    let status = served.wait_end(id).await;
    assert_eq!((&status["state"], &status["status"]), (&json!("failed"), &json!("error")));
    assert_eq!((&status["stdout"], &status["stderr"]), (&json!("out\n"), &json!("err\n")));
    assert_eq!(status["exit_code"], 7);
    assert_eq!(served.get(&format!("/jobs/{id}/logs?stream=stderr")).await.text(), "err\n");
    assert_eq!(served.get(&format!("/jobs/{id}/logs")).await.text(), "out\n");
}

#[tokio::test]
async fn a_poller_is_told_when_nothing_changed() {
    let served = Served::start().await;
    let id = served.schedule(&json!({"kind": "shell", "code": "true"})).await;
    served.wait_end(&id).await;
    let first = served.get(&format!("/status/{id}")).await;
    let tag = first.header("etag").unwrap().to_owned();
    let again = served.request("GET", &format!("/jobs/{id}"), &[("If-None-Match", &tag)], b"").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let other = served.request("GET", &format!("/status/{id}"), &[("If-None-Match", "\"other\"")], b"").await;
    assert_eq!(other.status, 200);
    let part = served.get(&format!("/status/{id}?fields=state,exit_code")).await;
    assert_eq!(part.json(), json!({"state": "succeeded", "exit_code": 0}));
    let head = served.request("HEAD", &format!("/status/{id}"), &[], b"").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn the_same_key_gives_the_same_job_and_another_body_a_conflict() {
    let served = Served::start().await;
    let send = |code: &'static str| {
        let body = json!({"kind": "shell", "code": code}).to_string();
        let served = &served;
        async move {
            let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k-1")];
            served.request("POST", "/schedule", &headers, body.as_bytes()).await
        }
    };
    let (first, again) = tokio::join!(send("echo 1"), send("echo 1"));
    assert_eq!(first.json()["job_id"], again.json()["job_id"]);
    let other = send("echo 2").await;
    assert_eq!((other.status, other.code().as_str()), (409, "idempotency_key_reused"));
    assert_eq!(served.get("/jobs").await.json()["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn lists_are_paged_newest_first_and_filtered() {
    let served = Served::start().await;
    let mut ids = Vec::new();
    for number in 0..5 {
        let id = served.schedule(&json!({"kind": "shell", "code": format!("exit {}", number % 2)})).await;
        served.wait_end(&id).await;
        ids.insert(0, id);
    }
    let mut seen = Vec::new();
    let mut target = "/jobs?limit=2".to_owned();
    loop {
        let page = served.get(&target).await.json();
        let jobs = page["jobs"].as_array().unwrap();
        assert!(jobs.len() <= 2);
        seen.extend(jobs.iter().map(|job| job["job_id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["cursor"].as_str() else { break };
        target = format!("/jobs?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ids);
    let failed = served.get("/jobs?status=error").await.json();
    assert_eq!(failed["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(served.get("/jobs?kind=session").await.json()["jobs"], json!([]));
    assert_eq!(served.get("/jobs?kind=python").await.json()["jobs"], json!([]));
}

#[tokio::test]
async fn l30_events_have_no_gap_and_resume() {
    let served = Served::start().await;
    let id = served.schedule(&json!({"kind": "shell", "code": "echo one; echo two >&2"})).await;
    let text = served.get(&format!("/jobs/{id}/events")).await.text();
    let all = events(&text);
    let ids: Vec<u64> = all.iter().map(|event| event.0).collect();
    assert_eq!(ids, (1..=all.len() as u64).collect::<Vec<_>>(), "{text}");
    let last = all.last().unwrap();
    assert_eq!(
        (last.1.as_str(), &last.2["state"], &last.2["status"]),
        ("state", &json!("succeeded"), &json!("complete"))
    );
    let out = all.iter().find(|event| event.1 == "stdout").unwrap();
    assert_eq!((&out.2["text"], &out.2["offset"]), (&json!("one\n"), &json!(0)));
    let resumed = served.request("GET", &format!("/jobs/{id}/events"), &[("Last-Event-ID", "2")], b"").await;
    assert_eq!(events(&resumed.text()), all[2..]);
    let after = served.get(&format!("/jobs/{id}/events?after=3")).await;
    assert_eq!(events(&after.text()), all[3..]);
    let done = served.get(&format!("/jobs/{id}/events?after={}", all.len())).await;
    assert_eq!(done.status, 204);
}

#[tokio::test]
async fn a_part_of_the_events_can_be_read_without_waiting() {
    let served = Served::start().await;
    let id = served.session().await;
    let part = async |query: &str| events(&served.get(&format!("/jobs/{id}/events?{query}")).await.text());
    // The session lives: without `wait=0` each of these would stay open.
    let all = part("wait=0").await;
    assert!(all.len() >= 3, "{all:?}");
    assert_eq!(part("tail=2&wait=0").await, all[all.len() - 2..]);
    assert_eq!(part("tail=1000&wait=0").await, all);
    assert_eq!(part("after=1&limit=1").await, all[1..2]);
    assert_eq!(part("limit=2").await, all[..2]);
    let none = served.get(&format!("/jobs/{id}/events?after={}&wait=0", all.len())).await;
    assert_eq!(none.status, 204);
    assert_eq!(served.get(&format!("/jobs/{id}/events?tail=x")).await.status, 400);
}

#[tokio::test]
async fn a_request_can_be_read_and_sent_again() {
    let served = Served::start().await;
    let body = json!({
        "kind": "shell", "code": "echo again", "name": "again", "env": {"TOKEN": "secret"}, "files": {"a.txt": "a"},
        "limits": {"timeout_s": 60}, "egress": ["example.com"], "keep": false,
    });
    let id = served.schedule(&body).await;
    served.wait_end(&id).await;
    let reply = served.get(&format!("/jobs/{id}/request")).await;
    assert!(!reply.text().contains("secret"), "{}", reply.text());
    let request = reply.json();
    for member in ["kind", "code", "name", "egress", "keep"] {
        assert_eq!(request[member], body[member], "{member}");
    }
    assert_eq!(request["limits"]["timeout_s"], 60);
    assert_eq!((request.get("env"), request.get("files")), (None, None));
    let again = served.schedule(&request).await;
    assert_eq!(served.wait_end(&again).await["stdout"], "again\n");
    assert_eq!(served.get("/jobs/aaaaaaaaaaaaaaaaaaaaaaaaaa/request").await.status, 404);
}

#[tokio::test]
async fn a_download_takes_ranges() {
    let served = Served::start().await;
    let id = served
        .schedule(&json!({"kind": "shell", "code": "head -c 200000 /dev/urandom > blob", "name": "my job"}))
        .await;
    served.wait_end(&id).await;
    let target = format!("/jobs/{id}/download");
    let whole = served.get(&target).await;
    assert_eq!((whole.status, &whole.body[..2]), (200, &b"PK"[..]));
    assert_eq!(whole.header("content-type"), Some("application/zip"));
    assert!(whole.header("content-disposition").unwrap().contains("attachment"));
    let tag = whole.header("etag").unwrap().to_owned();
    let length = whole.body.len();
    for (range, expected) in
        [("bytes=1000-", 1000..length), ("bytes=5-9", 5..10), ("bytes=-7", length - 7..length)]
    {
        let part = served.request("GET", &target, &[("Range", range), ("If-Range", &tag)], b"").await;
        assert_eq!(part.status, 206, "{range}");
        assert_eq!(part.body, whole.body[expected.clone()], "{range}");
        let told = format!("bytes {}-{}/{length}", expected.start, expected.end - 1);
        assert_eq!(part.header("content-range"), Some(told.as_str()));
    }
    let outside = served.request("GET", &target, &[("Range", "bytes=99999999-")], b"").await;
    assert_eq!((outside.status, outside.code().as_str()), (416, "range_not_satisfiable"));
    assert_eq!(outside.header("content-range"), Some(format!("bytes */{length}").as_str()));
    let stale = served.request("GET", &target, &[("Range", "bytes=5-9"), ("If-Range", "\"old\"")], b"").await;
    assert_eq!((stale.status, stale.body.len()), (200, length));
    let head = served.request("HEAD", &target, &[], b"").await;
    assert_eq!((head.header("content-length"), head.body.len()), (Some(length.to_string().as_str()), 0));
    let known = served.request("GET", &target, &[("If-None-Match", &tag)], b"").await;
    assert_eq!((known.status, known.body.len()), (304, 0));
}

#[tokio::test]
async fn cancel_is_idempotent_and_delete_leaves_nothing() {
    let served = Served::start().await;
    let id = served.session().await;
    let early = served.get(&format!("/jobs/{id}/download")).await;
    assert_eq!(early.status, 409);
    for _ in 0..2 {
        assert_eq!(served.post(&format!("/jobs/{id}/cancel"), &json!({})).await.status, 200);
        assert_eq!(served.wait_end(&id).await["state"], "cancelled");
    }
    let reply = served.post(&format!("/jobs/{id}/reply"), &json!({"text": "hello"})).await;
    assert_eq!(reply.status, 409);
    let late = served.post(&format!("/jobs/{id}/shell"), &json!({"command": "true"})).await;
    assert_eq!((late.status, late.code().as_str()), (409, "sandbox_not_live"));
    // A status that was asked for often is kept in memory; deletion must reach it there too.
    while served.get(&format!("/status/{id}")).await.json()["sandbox"] != "gone" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let kept = served.get(&format!("/status/{id}")).await;
    assert_eq!(kept.body, served.get(&format!("/status/{id}")).await.body);
    assert_eq!(served.request("DELETE", &format!("/jobs/{id}"), &[], b"").await.status, 204);
    assert_eq!(served.get(&format!("/status/{id}")).await.status, 404);
    assert_eq!(served.request("DELETE", &format!("/jobs/{id}"), &[], b"").await.status, 404);
    served.expect_nothing().await;
}

#[tokio::test]
async fn a_reply_is_for_tasks_and_well_formed() {
    let served = Served::start().await;
    let id = served.schedule(&json!({"kind": "session"})).await;
    let path = format!("/jobs/{id}/reply");
    for (body, status, code) in [
        (json!({"text": "hello"}), 409, "not_waiting"),
        (json!({"text": ""}), 422, "invalid_value"),
        (json!({}), 422, "missing_member"),
        (json!({"text": "more", "budget": {"steps": 0}}), 422, "invalid_value"),
        (json!({"text": "more", "budget": {"euro": 1}}), 422, "unknown_member"),
    ] {
        let reply = served.post(&path, &body).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{body}");
    }
    let unknown = served.post("/jobs/aaaaaaaaaaaaaaaaaaaaaaaaaa/reply", &json!({"text": "x"})).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_job"));
}

#[tokio::test]
async fn the_beginning_of_an_id_is_enough_on_every_route() {
    let served = Served::start().await;
    let id = served.session().await;
    let short = &id[..8];
    assert_eq!(served.get(&format!("/status/{short}")).await.json()["job_id"], json!(id));
    assert_eq!(served.shell(short, "echo hi").await["stdout"], "hi\n");
    let ticket = served.post(&format!("/jobs/{short}/tickets"), &json!({"for": "lab"})).await.json();
    assert!(ticket["url"].as_str().unwrap().starts_with(&format!("/jobs/{id}/lab")), "{ticket}");
    for unknown in [&id[..3], "aaaa"] {
        assert_eq!(served.get(&format!("/jobs/{unknown}")).await.status, 404, "{unknown}");
    }
    served.request("DELETE", &format!("/jobs/{short}"), &[], b"").await;
    assert_eq!(served.get(&format!("/jobs/{short}")).await.status, 404);
}

/// Four letters of ids have 20 bits, so two of some thousand ids begin alike. None of these jobs starts.
#[tokio::test]
async fn a_beginning_of_several_ids_names_them() {
    let yard = TestYard::with(|config| {
        config.admission.concurrency = 0;
        config.admission.queue = usize::MAX;
    });
    let served = Served::serve(yard.await.unwrap(), open(), ServeLimits::default()).await;
    let mut seen = std::collections::BTreeMap::new();
    let (one, other) = loop {
        let id = served.yard.schedule(sandyard_testkit::shell("true")).await.unwrap().to_string();
        if let Some(other) = seen.insert(id[..4].to_owned(), id.clone()) {
            break (id, other);
        }
    };
    let refused = served.get(&format!("/jobs/{}", &one[..4])).await;
    assert_eq!(refused.status, 409);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "ambiguous_job");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&one) && message.contains(&other), "{message}");
}

#[tokio::test]
async fn a_status_tells_what_was_asked_and_a_list_its_first_line() {
    let served = Served::start().await;
    let code = format!("echo first\necho {}", "x".repeat(300));
    let body = json!({"kind": "shell", "code": code, "env": {"SECRET": "s3cr3t"}, "egress": ["Example.com"],
        "limits": {"memory_mib": 64}});
    let id = served.schedule(&body).await;
    let status = served.wait_end(&id).await;
    assert_eq!(status["input"].as_str().unwrap(), code.chars().take(200).collect::<String>());
    assert_eq!((&status["env_names"], &status["egress"]), (&json!(["SECRET"]), &json!(["example.com"])));
    assert_eq!((&status["limits"]["memory_mib"], &status["limits"]["timeout_s"]), (&json!(64), &json!(3600)));
    assert!(!status.to_string().contains("s3cr3t"), "{status}");
    assert_eq!(served.get("/jobs").await.json()["jobs"][0]["input"], "echo first");
}

#[tokio::test]
async fn a_session_that_is_extended_outlives_its_first_limit() {
    let served = Served::start().await;
    let id = served.schedule(&json!({"kind": "session", "limits": {"timeout_s": 8}})).await;
    served.wait(&id, |status| status["state"] == "running").await;
    let extended = served.post(&format!("/jobs/{id}/extend"), &json!({"timeout_s": 600})).await;
    assert_eq!(extended.status, 200, "{extended:?}");
    assert!(extended.json()["limits"]["timeout_s"].as_u64().unwrap() >= 600);
    let shorter = served.post(&format!("/jobs/{id}/extend"), &json!({"timeout_s": 1})).await.json();
    assert!(shorter["limits"]["timeout_s"].as_u64().unwrap() >= 600, "it is never shortened");
    assert_eq!(served.shell(&id, "sleep 9; echo still").await["stdout"], "still\n");
    for (body, status) in
        [(json!({"timeout_s": 0}), 422), (json!({}), 422), (json!({"timeout_s": 2_592_000}), 422)]
    {
        assert_eq!(served.post(&format!("/jobs/{id}/extend"), &body).await.status, status, "{body}");
    }
    served.post(&format!("/jobs/{id}/cancel"), &json!({})).await;
    served.wait_end(&id).await;
    assert_eq!(served.post(&format!("/jobs/{id}/extend"), &json!({"timeout_s": 9})).await.status, 409);
}

#[tokio::test]
async fn stats_tell_the_limits_and_end_with_the_sandbox() {
    let served = Served::start().await;
    let id = served.session().await;
    let one = served.get(&format!("/jobs/{id}/stats?limit=1")).await.text();
    let data: Value =
        serde_json::from_str(one.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap();
    assert_eq!((&data["sandbox"], &data["cpus"]), (&json!("live"), &Value::Null));
    assert!(data["memory_limit_bytes"].as_u64() > Some(0) && data["left_s"].as_u64() > Some(3000), "{data}");
    served.post(&format!("/jobs/{id}/cancel"), &json!({})).await;
    served.wait_end(&id).await;
    // The stream of an ended job closes by itself.
    let ended = served.get(&format!("/jobs/{id}/stats")).await.text();
    assert_eq!(ended.matches("event: stats").count(), 1, "{ended}");
}
