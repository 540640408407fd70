//! A server that dies with many live sandboxes: the next one adopts all of them, soon and without losing a lease.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::yard::{PATIENCE, Yard};

/// Sandboxes of the ordinary test, and of the soak.
const FEW: usize = 40;
const MANY: usize = 1000;
/// Time in which a quiet machine adopts the sandboxes of the soak, and the slowest answer of `/healthz` meanwhile.
const ADOPTION_TIME: Duration = Duration::from_secs(5);
const HEALTH_TIME: Duration = Duration::from_millis(100);

async fn adopted(yard: &Yard) -> usize {
    let metrics = yard.get("/metrics").await.text().await.unwrap();
    let line = metrics.lines().find(|line| line.starts_with("sandyard_links_total "));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
}

/// Starts sessions, kills the server, and returns how long the next one took to adopt all of them, and the slowest answer of
/// `/healthz` meanwhile.
async fn adopt(sandboxes: usize) -> (Duration, Duration) {
    let concurrency = sandboxes.to_string();
    let memory = (sandboxes * 32 + 2048).to_string();
    // Their disks stay nearly empty.
    let disk = (sandboxes * 80).to_string();
    let flags = ["--concurrency", &concurrency, "--memory-mib", &memory, "--disk-mib", &disk];
    let mut yard = Yard::start_with(&flags).await;
    let body = json!({"kind": "session", "limits": {"memory_mib": 32, "disk_mib": 64, "timeout_s": 3600}});
    let mut ids = Vec::new();
    for _ in 0..sandboxes {
        ids.push(yard.schedule(&body).await);
    }
    for id in &ids {
        let deadline = Instant::now() + 4 * PATIENCE;
        loop {
            let status = yard.status(id).await;
            if status["sandbox"] == "live" {
                break;
            }
            assert!(status["error"].is_null() && Instant::now() < deadline, "{status}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    yard.crash().await;
    let began = Instant::now();
    yard.serve().await;
    let mut slowest = Duration::ZERO;
    while adopted(&yard).await < sandboxes {
        let asked = Instant::now();
        assert_eq!(yard.get("/healthz").await.status(), 200);
        slowest = slowest.max(asked.elapsed());
        assert!(began.elapsed() < 2 * PATIENCE, "{}", yard.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = began.elapsed();
    let answer = yard.shell(&ids[sandboxes / 2], "echo alive").await;
    assert_eq!(answer["stdout"], "alive\n");
    assert!(!yard.log().contains("the lease ran out"), "{}", yard.log());
    for id in &ids {
        yard.delete(id).await;
    }
    yard.expect_no_leftovers().await;
    (took, slowest)
}

#[tokio::test]
async fn live_sandboxes_are_adopted_without_losing_a_lease() {
    adopt(FEW).await;
}

#[tokio::test]
async fn soak_a_thousand_live_sandboxes_are_adopted() {
    if std::env::var_os("SANDYARD_SOAK").is_none() {
        return eprintln!("skipped: set SANDYARD_SOAK=1 (make test-all)");
    }
    let (took, slowest) = adopt(MANY).await;
    eprintln!("{MANY} sandboxes adopted in {took:?}; /healthz at most {slowest:?}");
    // The bounds of a quiet machine, times four for one that does other work. Adoption whose time grows with the square of the
    // number, as it once did, never ends here.
    assert!(took < 4 * ADOPTION_TIME, "{MANY} sandboxes were adopted in {took:?}");
    assert!(slowest < 4 * HEALTH_TIME, "/healthz took {slowest:?} meanwhile");
}
