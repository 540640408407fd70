//! Access: hosts, origins, keys, tickets, for plain requests and for upgrades alike.

use sandyard_server::app::{AppError, ErrorCode, JobFilter, TicketTarget};
use sandyard_server::auth::{AccessRules, AccessScope, AccessScopes, AccountId, Caller, KeyStore, TenantId};
use sandyard_server::http::ServeLimits;
use sandyard_testkit::{TestYard, session};
use serde_json::json;

use crate::client::{Reply, Served};

const KEY: &str = "sy_right";

async fn keyed() -> Served {
    let access = AccessRules::new("0.0.0.0", KeyStore::from_keys([KEY.to_owned()]));
    Served::serve(TestYard::new().await.unwrap(), access, ServeLimits::default()).await
}

const UPGRADE: [(&str, &str); 4] = [
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

async fn upgrade(served: &Served, path: &str, more: &[(&str, &str)]) -> Reply {
    let headers: Vec<_> = UPGRADE.iter().chain(more).copied().collect();
    served.request("GET", path, &headers, b"").await
}

#[tokio::test]
async fn w2_w8_foreign_hosts_and_origins_are_refused() {
    let served = Served::start().await;
    let id = served.session().await;
    for (header, value, code) in [
        ("Host", "evil.example", "foreign_host"),
        ("Host", "127.0.0.1.evil.example:8000", "foreign_host"),
        ("Host", "8888-abc.localhost:8000", "foreign_host"),
        ("Origin", "http://evil.example", "foreign_origin"),
        ("Origin", "http://127.0.0.1:1", "foreign_origin"),
        ("Origin", "null", "foreign_origin"),
        ("Origin", "http://8888-k5c7jq3l2m4n6o7p2q3r4s5t6u.localhost:8000", "foreign_origin"),
        ("Sec-Fetch-Site", "cross-site", "foreign_origin"),
    ] {
        for path in
            ["/jobs".to_owned(), format!("/status/{id}"), "/docs".to_owned(), format!("/jobs/{id}/download")]
        {
            let reply = served.request("GET", &path, &[(header, value)], b"").await;
            assert_eq!((reply.status, reply.code().as_str()), (403, code), "{header}: {value} {path}");
        }
        let reply = upgrade(&served, &format!("/jobs/{id}/shell"), &[(header, value)]).await;
        assert_eq!((reply.status, reply.code().as_str()), (403, code), "upgrade with {header}: {value}");
        let body = json!({"kind": "session"}).to_string();
        let headers = [("Content-Type", "text/plain"), (header, value)];
        let reply = served.request("POST", "/schedule", &headers, body.as_bytes()).await;
        assert_eq!(reply.status, 403, "POST with {header}: {value}");
    }
    for host in ["localhost:9999", "127.0.0.1", "[::1]:1"] {
        assert_eq!(served.request("GET", "/jobs", &[("Host", host)], b"").await.status, 200, "{host}");
    }
    // W12: headers that a proxy would add are ignored.
    for header in ["X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-Real-IP"] {
        let headers = [("Host", "evil.example"), (header, "localhost")];
        assert_eq!(served.request("GET", "/jobs", &headers, b"").await.status, 403, "{header}");
    }
}

#[tokio::test]
async fn w7_w23_every_route_and_upgrade_needs_the_key() {
    let served = keyed().await;
    let id = "a".repeat(26);
    let wrong: [&[(&str, &str)]; 6] = [
        &[],
        &[("Authorization", "Bearer sy_wrong")],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "Basic c3lfcmlnaHQ=")],
        &[("Authorization", "Bearer sy_right"), ("Authorization", "Bearer sy_right")],
        &[("Cookie", "key=sy_right"), ("X-Api-Key", "sy_right")],
    ];
    for headers in wrong {
        for path in [
            "/jobs",
            "/metrics",
            "/mcp",
            "/drivers",
            "/version",
            &format!("/jobs/{id}/files/x"),
            "/jobs?key=sy_right",
            "/nowhere",
        ] {
            let reply = served.request("GET", path, headers, b"").await;
            assert_eq!((reply.status, reply.code().as_str()), (401, "unauthorized"), "{path} {headers:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        let reply = upgrade(&served, &format!("/jobs/{id}/shell"), headers).await;
        assert_eq!(reply.status, 401, "upgrade {headers:?}");
        let reply = upgrade(&served, &format!("/jobs/{id}/shell?ticket=made-up"), headers).await;
        assert_eq!(reply.status, 401, "upgrade with a ticket {headers:?}");
    }
    for path in
        ["/", "/docs", "/openapi.json", "/healthz", "/readyz", "/console/system", "/assets/favicon.svg"]
    {
        assert_eq!(served.get(path).await.status, 200, "{path}");
    }
    let right = [("Authorization", "Bearer sy_right"), ("Host", "yard.example")];
    assert_eq!(served.request("GET", "/jobs", &right, b"").await.status, 200);
}

#[tokio::test]
async fn w16_a_ticket_opens_one_thing_once() {
    let served = keyed().await;
    let bearer = ("Authorization", "Bearer sy_right");
    let json_type = ("Content-Type", "application/json");
    let body = json!({"kind": "shell", "code": "echo hi > file"}).to_string();
    let reply = served.request("POST", "/schedule", &[bearer, json_type], body.as_bytes()).await;
    let id = reply.json()["job_id"].as_str().unwrap().to_owned();
    let ended = || async {
        let reply = served.request("GET", &format!("/status/{id}?wait=1"), &[bearer], b"").await;
        reply.json()["finished_at"].is_string()
    };
    while !ended().await {}
    let ticket = |purpose: &'static str| {
        let (served, id) = (&served, &id);
        async move {
            let body = json!({ "for": purpose }).to_string();
            let reply = served
                .request("POST", &format!("/jobs/{id}/tickets"), &[bearer, json_type], body.as_bytes())
                .await;
            assert_eq!(reply.status, 201, "{reply:?}");
            reply.json()["url"].as_str().unwrap().to_owned()
        }
    };
    let url = ticket("download").await;
    assert_eq!(served.get(&url).await.status, 200);
    assert_eq!(served.get(&url).await.status, 401, "single use");
    let pty = ticket("pty").await.replace("/shell", "/download");
    assert_eq!(served.get(&pty).await.status, 401, "another purpose");
    let download = ticket("download").await;
    let other = download.replace(&id, &"a".repeat(26));
    assert_eq!(served.get(&other).await.status, 401, "another job");
    let logs = ticket("download").await.replace("/download", "/logs");
    assert_eq!(served.get(&logs).await.status, 401, "another route");
}

#[tokio::test]
async fn w6_every_answer_carries_the_security_headers() {
    let served = Served::start().await;
    let id = served
        .schedule(&json!({"kind": "shell", "code": "true", "name": "<img src=x onerror=alert(1)>"}))
        .await;
    served.wait_end(&id).await;
    for path in [
        "/",
        "/docs",
        "/openapi.json",
        "/console/system",
        "/assets/desktop.js",
        "/jobs",
        "/nowhere",
        "/metrics",
        "/healthz",
        &format!("/status/{id}"),
        &format!("/jobs/{id}/logs"),
        &format!("/jobs/{id}/download"),
        &format!("/jobs/{id}/events"),
    ] {
        let reply = served.get(path).await;
        let policy = reply.header("content-security-policy").unwrap_or_default().to_owned();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        assert_eq!(reply.header("cross-origin-opener-policy"), Some("same-origin"), "{path}");
        assert!(reply.header("x-request-id").is_some(), "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
        assert_eq!(reply.header("set-cookie"), None, "{path}");
        // W18: markup in a name is never part of a page.
        let page = reply.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        assert!(!page || !reply.text().contains("onerror"), "{path}");
    }
}

/// Another account reaches no job of the operator, and nothing tells it that the job exists.
#[tokio::test]
async fn w23_a_job_of_somebody_else_is_an_unknown_job() {
    let yard = TestYard::new().await.unwrap();
    let id = yard.schedule(session()).await.unwrap();
    let (account, tenant) = (AccountId::parse("ann").unwrap(), TenantId::parse("red").unwrap());
    let stranger = Caller::new(account, tenant, AccessScopes::ALL);
    for scope in [AccessScope::ReadJobs, AccessScope::WriteJobs, AccessScope::UseSandbox] {
        let refused = yard.yard.job(&stranger, &id, scope).await.unwrap_err();
        assert_eq!(refused, AppError::unknown_job(), "{scope:?}");
    }
    assert!(yard.yard.list(&stranger, &JobFilter::default(), 10, None).await.unwrap().jobs.is_empty());

    // The right to read a job is no right to change it or to work in it.
    let reads = AccessScopes::only(AccessScope::ReadJobs);
    let reader = Caller::new(AccountId::OPERATOR, TenantId::DEFAULT, reads);
    let job = yard.yard.job(&reader, &id, AccessScope::ReadJobs).await.unwrap();
    let denied = Some(ErrorCode::PermissionDenied);
    assert_eq!(yard.yard.cancel(&job).await.err().map(|error| error.code), denied);
    assert_eq!(yard.yard.delete(&job).await.err().map(|error| error.code), denied);
    assert_eq!(yard.yard.machine(&job).await.err().map(|error| error.code), denied);
    let ticket = yard.yard.make_ticket(&job, TicketTarget::Pty).await;
    assert_eq!(ticket.err().map(|error| error.code), denied);
    assert!(yard.yard.make_ticket(&job, TicketTarget::Download).await.is_ok());
    let scheduled = yard.yard.schedule(&reader, session(), None).await;
    assert_eq!(scheduled.err().map(|error| error.code), denied);
}
