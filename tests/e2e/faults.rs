//! Disks that fill up or fail under the server.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::small_disk::{SmallDisk, run};
use crate::yard::{PATIENCE, Yard};

fn integrity(data: &Path) -> String {
    let check = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('PRAGMA integrity_check').fetchone()[0])";
    let output = Command::new("python3").args(["-c", check]).arg(data.join("yard.db")).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test]
async fn l10_a_full_disk_refuses_jobs_and_harms_none() {
    let disk = SmallDisk::new(1536);
    let mut yard = Yard::start_in(&disk.path(), &[], &[]).await;
    let running = yard.shell_job("echo before; sleep 4; seq 300000; echo after").await;
    yard.wait_for(&running, |status| status["stdout"] == "before\n").await;
    let filler = disk.fill();
    let refused = yard.post("/schedule", &json!({"kind": "shell", "code": "true"})).await;
    assert_eq!(refused.status(), 503);
    let error: serde_json::Value = refused.json().await.unwrap();
    assert_eq!(error["error"]["code"], "disk_full", "{error}");
    assert!(error["error"]["hint"].is_string(), "{error}");
    assert_eq!(yard.get_json("/jobs").await["jobs"].as_array().unwrap().len(), 1, "nothing is left of it");
    // Enough words for the log, which is on the same disk, to meet its end too.
    for _ in 0..80 {
        assert_eq!(yard.post("/schedule", &json!({"kind": "shell", "code": "true"})).await.status(), 503);
    }
    // Long enough for the output to meet the full disk.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(yard.get("/healthz").await.status().is_success());
    std::fs::remove_file(filler).unwrap();
    let status = yard.wait_end(&running).await;
    assert_eq!(status["state"], "succeeded", "{}", status["error"]);
    let log = yard.logs(&running, "stdout").await;
    assert_eq!(log.lines().count(), 300_002, "the output has no hole");
    assert!(log.ends_with("\nafter\n"));
    assert_eq!(yard.run_shell("echo again").await["stdout"], "again\n");
    yard.stop().await;
    assert_eq!(integrity(yard.data()), "ok");
}

/// Whatever was promised before the disk failed is still promised after it.
#[tokio::test]
async fn l12_a_failed_sync_ends_the_server_and_loses_nothing() {
    let folder = TempDir::with_prefix("shim-").unwrap();
    let (shim, trigger) = (folder.path().join("fail_sync.so"), folder.path().join("trigger"));
    // The server is another user than this test.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/fail_sync.c");
    run(Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).args([source, "-ldl"]));
    for first in [1, 2, 5, 9] {
        let environment = [("LD_PRELOAD", shim.as_path()), ("FAIL_SYNC", trigger.as_path())];
        let mut yard = Yard::start_in(&std::env::temp_dir(), &[], &environment).await;
        let sound = yard.run_shell("echo sound").await["job_id"].as_str().unwrap().to_owned();
        std::fs::write(&trigger, "x".repeat(first)).unwrap();
        let mut promised = vec![sound];
        let deadline = Instant::now() + PATIENCE;
        while !yard.has_ended() {
            assert!(Instant::now() < deadline, "the server goes on as if nothing had happened");
            if let Some(id) = yard.try_schedule(&json!({"kind": "shell", "code": "echo promised"})).await {
                promised.push(id);
            }
        }
        assert!(yard.log().to_lowercase().contains("i/o error"), "{}", yard.log());
        std::fs::remove_file(&trigger).unwrap();
        yard.serve_again().await;
        for id in &promised {
            let status = yard.wait_end(id).await;
            assert_eq!(status["state"], "succeeded", "from sync {first} on: {status}");
        }
        yard.expect_no_leftovers().await;
        yard.stop().await;
        assert_eq!(integrity(yard.data()), "ok");
    }
}
