//! A measurement of the queue, for `bench/queue.py`: jobs are scheduled, claimed and finished by the store alone, with everything that a
//! server would commit but its sandboxes. Prints one line of JSON.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::conformance::{claim, new_job, over_changes};
use super::{AuditSigner, Inserted, PostgresUrl, Store, StoreConfig, YardLock, open};
use crate::clock::Clock;
use crate::job::samples::signing_key;
use crate::job::{JobId, JobRow};

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One server of the measurement, with a data folder of its own.
struct MeasuredServer {
    store: Arc<dyn Store>,
    _data: tempfile::TempDir,
}

impl MeasuredServer {
    fn open(url: Option<&PostgresUrl>, key: Option<&std::path::Path>) -> Self {
        let data =
            tempfile::tempdir_in(std::env::var("QUEUE_DATA").unwrap_or_else(|_| "/tmp".into())).unwrap();
        if let Some(key) = key {
            std::fs::copy(key, data.path().join("store.key")).unwrap();
        }
        let config = url.map_or(StoreConfig::Sqlite, |url| StoreConfig::Postgres(url.clone()));
        let lock = YardLock::take(data.path()).unwrap();
        let signer = AuditSigner::new(signing_key());
        let store = open(&config, data.path(), lock, signer, Clock::default()).unwrap();
        Self { store, _data: data }
    }
}

async fn finish(store: &dyn Store, row: &JobRow) {
    store.commit(&row.fence(), over_changes(row)).await.unwrap();
}

/// Inserts jobs with many clients at once; returns their ids.
async fn schedule(stores: &[Arc<dyn Store>], jobs: usize, clients: usize) -> Vec<JobId> {
    let left = Arc::new(AtomicUsize::new(jobs));
    let clients = (0..clients).map(|client| {
        let (store, left) = (Arc::clone(&stores[client % stores.len()]), Arc::clone(&left));
        tokio::spawn(async move {
            let mut ids = Vec::new();
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let job = super::InsertJob { queue: usize::MAX, ..new_job() };
                match store.insert(job, None).await.unwrap() {
                    Inserted::New(row) => ids.push(row.id),
                    other => panic!("{other:?}"),
                }
            }
            ids
        })
    });
    let mut ids = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        ids.extend(client.await.unwrap());
    }
    ids
}

/// Claims and finishes everything that is queued, with many workers at once.
async fn drain(stores: &[Arc<dyn Store>], jobs: usize, workers: usize) {
    let done = Arc::new(AtomicUsize::new(0));
    let stop = CancellationToken::new();
    let mut tasks = Vec::new();
    for (number, store) in stores.iter().enumerate() {
        let (sender, receiver) = tokio::sync::mpsc::channel::<JobRow>(workers);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        // Reads the queue in pages, as the reconciler does, and hands the rows to workers.
        let (reader, ended) = (Arc::clone(store), stop.clone());
        tasks.push(tokio::spawn(async move {
            let mut after = 0;
            while !ended.is_cancelled() {
                let page = reader.queued(after, 256).await.unwrap();
                after = page.last().map_or(0, |row| row.number);
                for row in page {
                    if sender.send(row).await.is_err() {
                        return;
                    }
                }
            }
        }));
        for _ in 0..workers / stores.len() {
            let (store, receiver, done, stop) =
                (Arc::clone(store), Arc::clone(&receiver), Arc::clone(&done), stop.clone());
            let owner = format!("server {number}");
            tasks.push(tokio::spawn(async move {
                loop {
                    let row = tokio::select! {
                        () = stop.cancelled() => return,
                        row = async { receiver.lock().await.recv().await } => row,
                    };
                    let Some(row) = row else { return };
                    if let Some(row) = store.claim_queued(&row.id, claim(&owner)).await.unwrap() {
                        finish(store.as_ref(), &row).await;
                        if done.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
                            stop.cancel();
                        }
                    }
                }
            }));
        }
    }
    stop.cancelled().await;
    for task in tasks {
        task.abort();
    }
}

/// Times from an insert to the end of its claim, one job after the other, on an idle queue.
async fn pick_up(store: &dyn Store, jobs: usize) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..jobs {
        let begun = Instant::now();
        let job = super::InsertJob { queue: usize::MAX, ..new_job() };
        let Inserted::New(row) = store.insert(job, None).await.unwrap() else { panic!("not new") };
        let row = store.claim_queued(&row.id, claim("one")).await.unwrap().unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
        finish(store, &row).await;
    }
    times.sort_unstable_by(f64::total_cmp);
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, which bench/queue.py starts"]
async fn measure() {
    let url = std::env::var("QUEUE_URL").ok().map(|url| PostgresUrl::parse(&url).unwrap());
    let (jobs, workers) = (setting("QUEUE_JOBS", 5000), setting("QUEUE_WORKERS", 64));
    let first = MeasuredServer::open(url.as_ref(), None);
    let key = first._data.path().join("store.key");
    let others: Vec<_> =
        (1..setting("QUEUE_SERVERS", 1)).map(|_| MeasuredServer::open(url.as_ref(), Some(&key))).collect();
    let stores: Vec<_> =
        std::iter::once(&first).chain(&others).map(|server| Arc::clone(&server.store)).collect();
    // Statements are prepared and pages are warm afterwards.
    schedule(&stores, 200, workers).await;
    drain(&stores, 200, workers).await;
    let begun = Instant::now();
    schedule(&stores, jobs, workers).await;
    let scheduled = begun.elapsed();
    drain(&stores, jobs, workers).await;
    let all = begun.elapsed();
    let times = pick_up(stores[0].as_ref(), setting("QUEUE_PICK_UPS", 200)).await;
    let per_s = |time: Duration| jobs as f64 / time.as_secs_f64();
    let line = serde_json::json!({
        "jobs": jobs,
        "workers": workers,
        "servers": stores.len(),
        "schedule_per_s": per_s(scheduled),
        "claim_and_finish_per_s": per_s(all - scheduled),
        "whole_per_s": per_s(all),
        "pick_up_median_ms": times[times.len() / 2],
        "pick_up_p95_ms": times[times.len() * 95 / 100],
    });
    println!("{line}");
}
