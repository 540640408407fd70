//! Records of the API's audit: the actor and the action.

use sandyard_server::audit::verify_lines;
use sandyard_server::auth::{AccessRules, KeyStore};
use sandyard_server::http::ServeLimits;
use sandyard_testkit::TestYard;
use serde_json::{Value, json};

use crate::client::Served;

const KEY: &str = "sy_the-key-of-somebody";
const AUTHORIZED: [(&str, &str); 2] =
    [("Authorization", "Bearer sy_the-key-of-somebody"), ("Content-Type", "application/json")];

async fn records(served: &Served, id: &str) -> (String, Vec<Value>) {
    let text = served.request("GET", &format!("/jobs/{id}/audit"), &AUTHORIZED, b"").await.text();
    let verdict = verify_lines(&text, Some(served.yard.yard.audit_key())).unwrap();
    assert!(verdict.faults.is_empty(), "{:?}", verdict.faults);
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (text, lines)
}

async fn locked() -> Served {
    let keys = KeyStore::from_keys([KEY.to_owned()]);
    Served::serve(TestYard::new().await.unwrap(), AccessRules::new("127.0.0.1", keys), ServeLimits::default())
        .await
}

#[tokio::test]
async fn every_act_names_the_key_that_was_used_and_never_holds_it() {
    let served = locked().await;
    let body = json!({"kind": "session"}).to_string();
    let reply = served.request("POST", "/schedule", &AUTHORIZED, body.as_bytes()).await;
    let id = reply.json()["job_id"].as_str().unwrap().to_owned();
    let job = sandyard_server::job::JobId::parse(&id).unwrap();
    served.yard.wait(&job, "a live sandbox", |status| status.sandbox.as_str() == "live").await.unwrap();
    let files = format!("/jobs/{id}/files/a.txt");
    assert_eq!(served.request("PUT", &files, &AUTHORIZED, b"words").await.status, 200);
    assert_eq!(served.request("GET", &format!("{files}.no"), &AUTHORIZED, b"").await.status, 404);
    let shell = json!({"command": "true"}).to_string();
    let mcp = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "run_shell", "arguments": {"job_id": id, "command": "true"}},
    });
    assert_eq!(
        served.request("POST", &format!("/jobs/{id}/shell"), &AUTHORIZED, shell.as_bytes()).await.status,
        200
    );
    let mut headers = AUTHORIZED.to_vec();
    headers.push(("Accept", "application/json, text/event-stream"));
    assert_eq!(served.request("POST", "/mcp", &headers, mcp.to_string().as_bytes()).await.status, 200);
    assert_eq!(served.request("POST", &format!("/jobs/{id}/cancel"), &AUTHORIZED, b"").await.status, 200);
    served.yard.ended(&job).await.unwrap();
    let (text, records) = loop {
        let (text, records) = records(&served, &id).await;
        if records.iter().filter(|record| record["kind"] == "result").count() == 4 {
            break (text, records);
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(!text.contains(KEY) && !text.contains("words"), "{text}");
    for kind in ["schedule", "file", "shell", "cancel"] {
        let acts: Vec<&Value> = records.iter().filter(|record| record["kind"] == kind).collect();
        assert!(!acts.is_empty(), "{kind}: {text}");
        for act in acts {
            let by = act["facts"]["by"].as_str().unwrap();
            assert!(act["actor"] == "operator" && by.starts_with("key:") && by.len() == 16, "{act}");
        }
    }
    assert_eq!(records.iter().filter(|record| record["facts"]["over"] == "mcp").count(), 1, "{text}");
    let failed = records
        .iter()
        .find(|record| record["facts"]["error"] == "no_such_file" || record["facts"]["status"] == 404);
    assert!(failed.is_some(), "{text}");
    let status = served.request("GET", &format!("/status/{id}"), &AUTHORIZED, b"").await.json();
    assert_eq!(status["audit"]["key"], served.yard.yard.audit_key().to_string());
    assert_eq!(status["audit"]["records"].as_u64().unwrap(), records.len() as u64 - 1);
}

#[tokio::test]
async fn the_audit_is_paged_tagged_and_unknown_for_unknown_jobs() {
    let served = Served::start().await;
    let id = served.session().await;
    let path = format!("/jobs/{id}/audit");
    let whole = served.get(&path).await;
    assert_eq!(whole.header("content-type"), Some("application/x-ndjson"));
    let tag = whole.header("etag").unwrap().to_owned();
    let known = served.request("GET", &path, &[("If-None-Match", &tag)], b"").await;
    assert_eq!((known.status, known.body.len()), (304, 0));
    let rest = served.get(&format!("{path}?after=1")).await.text();
    assert_eq!(rest, whole.text().split_once('\n').unwrap().1, "only the first record is left out");
    assert_eq!(served.get(&format!("{path}?after=x")).await.status, 400);
    assert_eq!(served.get(&format!("/jobs/{}/audit", "a".repeat(26))).await.status, 404);
}

#[tokio::test]
async fn ten_thousand_calls_leave_a_bounded_audit_that_counts_them_all() {
    let served = Served::start().await;
    let id = served.session().await;
    let job = sandyard_server::job::JobId::parse(&id).unwrap();
    let calls = 10_000;
    let path = format!("/jobs/{id}/files/none?stat=1");
    for _ in 0..calls / 50 {
        let some = (0..50).map(|_| served.get(&path));
        futures_util::future::join_all(some).await;
    }
    served.yard.yard.cancel(&served.yard.job(&job).await.unwrap()).await.unwrap();
    served.yard.ended(&job).await.unwrap();
    let text = served.get(&format!("/jobs/{id}/audit")).await.text();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let files = records.iter().filter(|record| record["kind"] == "file");
    let counted: u64 = files.map(|record| record["facts"]["folded"].as_u64().unwrap_or(1)).sum();
    assert_eq!(counted, calls);
    assert!(
        records.len() < 9_000 && text.len() < 6_000_000,
        "{} records, {} bytes",
        records.len(),
        text.len()
    );
}
