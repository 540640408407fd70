//! The host's disk as a resource: promised like memory, defended when it runs low, and noticed when it fails.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::downloads;
use crate::small_disk::{ClosedFolder, SmallDisk};
use crate::yard::{PATIENCE, Yard};

fn session_on(disk_mib: u64) -> Value {
    json!({"kind": "session", "limits": {"memory_mib": 128, "disk_mib": disk_mib, "timeout_s": 600}})
}

async fn live(yard: &Yard, disk_mib: u64) -> String {
    let id = yard.schedule(&session_on(disk_mib)).await;
    yard.wait_for(&id, |status| status["sandbox"] == "live").await;
    id
}

/// Writes random bytes, which no file system makes smaller.
async fn write(yard: &Yard, id: &str, mib: u64) -> Value {
    yard.shell(id, &format!("head -c {mib}M /dev/urandom > big; sync -f .; ls -s big")).await
}

#[tokio::test]
async fn f3_disks_are_promised_like_memory() {
    let disk = SmallDisk::new(2048);
    let mut yard = Yard::start_in(&disk.path(), &["--pool", "0"], &[]).await;
    let too_large = yard.post("/schedule", &session_on(100_000)).await;
    assert_eq!(too_large.status(), 422);
    let error: Value = too_large.json().await.unwrap();
    assert_eq!(error["error"]["code"], "limit_out_of_range", "{error}");
    assert!(error["error"]["hint"].as_str().unwrap().contains("sandyard prune"), "{error}");
    let first = live(&yard, 900).await;
    let second = yard.schedule(&session_on(900)).await;
    let waiting = yard.wait_for(&second, |status| status["waiting_for"]["resource"] == "disk").await;
    assert!(waiting["waiting_for"]["message"].as_str().unwrap().contains("MiB of disk"), "{waiting}");
    // The first takes all it was promised, and the host keeps its reserve.
    let written = write(&yard, &first, 1000).await;
    assert!(written["stderr"].as_str().unwrap().contains("No space left"), "{written}");
    assert!(disk.free_mib() >= 512, "{} MiB are left", disk.free_mib());
    assert_eq!(yard.status(&second).await["state"], "queued");
    let small = json!({"kind": "shell", "code": "echo small", "limits": {"disk_mib": 64}});
    assert_eq!(yard.run(&small).await["state"], "succeeded");
    yard.delete(&first).await;
    yard.wait_for(&second, |status| status["sandbox"] == "live").await;
    yard.delete(&second).await;
    yard.expect_no_leftovers().await;
    yard.stop().await;
}

/// No reserve, so that nothing but the store's own space helps.
#[tokio::test]
async fn f3_cancel_delete_and_prune_work_on_a_full_disk() {
    let disk = SmallDisk::new(1024);
    let mut yard = Yard::start_in(&disk.path(), &["--pool", "0", "--disk-reserve-mib", "0"], &[]).await;
    let ended = yard.run(&json!({"kind": "shell", "code": "echo done", "limits": {"disk_mib": 64}})).await;
    let (first, second) = (live(&yard, 64).await, live(&yard, 64).await);
    let filler = disk.fill();
    assert_eq!(disk.free_mib(), 0);
    let cancelled = yard.post(&format!("/jobs/{first}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status(), 200, "{}", cancelled.text().await.unwrap());
    yard.delete(&second).await;
    yard.delete(ended["job_id"].as_str().unwrap()).await;
    yard.wait_for(&first, |status| status["state"] != "running").await;
    std::fs::remove_file(filler).unwrap();
    assert_eq!(yard.wait_end(&first).await["state"], "cancelled");
    yard.delete(&first).await;
    yard.expect_no_leftovers().await;
    yard.stop().await;
}

#[tokio::test]
async fn f3_a_disk_that_runs_low_costs_the_job_that_uses_most_and_no_other() {
    let disk = SmallDisk::new(2048);
    let mut yard = Yard::start_in(&disk.path(), &["--pool", "0"], &[]).await;
    let (modest, large) = (live(&yard, 300).await, live(&yard, 600).await);
    write(&yard, &modest, 20).await;
    write(&yard, &large, 400).await;
    // Another program takes what no job was promised, and more.
    let filler = disk.fill_but(200);
    let status = yard.wait_end(&large).await;
    assert_eq!(status["error"]["code"], "disk_exhausted", "{status}");
    assert!(status["error"]["message"].as_str().unwrap().contains("used most of it"), "{status}");
    let deadline = Instant::now() + PATIENCE;
    while disk.free_mib() < 256 {
        assert!(Instant::now() < deadline, "its space is not free: {} MiB", disk.free_mib());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let written = write(&yard, &modest, 30).await;
    assert_eq!(written["exit_code"], 0, "{written}");
    std::fs::remove_file(filler).unwrap();
    yard.delete(&modest).await;
    yard.expect_no_leftovers().await;
    yard.stop().await;
}

/// The file system of a sandbox gives up when its host loses writes.
#[tokio::test]
async fn d1_a_disk_that_became_read_only_is_noticed_and_its_files_are_saved() {
    let disk = SmallDisk::new(1024);
    let mut yard = Yard::start_in(&disk.path(), &["--pool", "0", "--disk-reserve-mib", "0"], &[]).await;
    let id = live(&yard, 400).await;
    assert_eq!(yard.shell(&id, "echo before > kept; sync -f .").await["exit_code"], 0);
    let filler = disk.fill();
    let deadline = Instant::now() + PATIENCE;
    let is_read_only = |answer: &Value| answer["stderr"].as_str().unwrap().contains("Read-only");
    while !is_read_only(
        &yard.shell(&id, "head -c 8M /dev/urandom > more; sync -f .; mkdir -p x; touch x/$RANDOM").await,
    ) {
        assert!(Instant::now() < deadline, "the disk goes on");
        if yard.status(&id).await["sandbox"] != "live" {
            break;
        }
    }
    std::fs::remove_file(filler).unwrap();
    let status = yard.wait_end(&id).await;
    assert_eq!(status["error"]["code"], "disk_lost", "{status}");
    assert!(status["error"]["message"].as_str().unwrap().contains("read-only"), "{status}");
    let zip = yard.download(&id).await;
    assert_eq!(downloads::read_entry(&zip, "kept"), b"before\n");
    yard.expect_no_leftovers().await;
    yard.stop().await;
}

#[tokio::test]
async fn d7_a_read_only_data_folder_is_not_ready() {
    let disk = SmallDisk::new(1024);
    let mut yard = Yard::start_in(&disk.path(), &["--pool", "0"], &[]).await;
    assert_eq!(yard.get("/readyz").await.status(), 200);
    {
        let _closed = ClosedFolder::of(yard.data());
        let answer = ready_status(&yard, 503).await;
        assert_eq!(answer["error"]["code"], "disk_unavailable", "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("Operation not permitted"), "{answer}");
    }
    ready_status(&yard, 200).await;
    yard.stop().await;
}

/// Waits until `/readyz` answers so: an answer is given again for a second.
async fn ready_status(yard: &Yard, wanted: u16) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = yard.get("/readyz").await;
        if answer.status() == wanted {
            return answer.json().await.unwrap();
        }
        assert!(Instant::now() < deadline, "{}", answer.status());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn d7_the_download_of_a_job_that_never_ran_is_a_sound_zip() {
    let mut yard = Yard::start_with(&["--concurrency", "0"]).await;
    let id = yard.shell_job("true").await;
    yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    let zip = yard.data().join("result.zip");
    std::fs::write(&zip, yard.download(&id).await).unwrap();
    let tested = Command::new("unzip").arg("-t").arg(&zip).output().unwrap();
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stdout));
    let verified =
        Command::new(env!("CARGO_BIN_EXE_sandyard")).args(["audit", "verify"]).arg(&zip).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
    yard.stop().await;
}
