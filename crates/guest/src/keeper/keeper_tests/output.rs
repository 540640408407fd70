//! The job's output: all of it, once, in order, in bounded memory.

use std::time::Instant;

use super::*;

/// Lines whose loss, repetition or disorder shows.
const COUNTING: &str =
    "for i in {1..120000}; do echo line $i; done; for i in {1..2000}; do echo error $i >&2; done";

fn counted(word: &str, most: usize) -> String {
    (1..=most).map(|number| format!("{word} {number}\n")).collect()
}

#[tokio::test]
async fn killing_keeper_again_and_again_loses_and_repeats_nothing() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    let slowly = COUNTING.replace("; done;", "; ((i % 4000)) || sleep 0.05; done;");
    host.begin(shell(&slowly)).await;
    let mut record = HostRecord::default();
    host.resume(&record).await;
    let mut kills = 0;
    let exit = within(async {
        loop {
            let patience = Duration::from_millis(5 + 17 * (kills % 7));
            let frames = async {
                loop {
                    if let Some(exit) = host.follow_one(&mut record).await {
                        return exit;
                    }
                }
            };
            match tokio::time::timeout(patience, frames).await {
                Ok(exit) => return exit,
                Err(_) => {
                    machine.kill_keeper().await;
                    kills += 1;
                    machine.start_keeper();
                    host = machine.host().await;
                    host.resume(&record).await;
                }
            }
        }
    })
    .await;
    assert!(kills >= 10, "only {kills} kills");
    assert_eq!(exit, own(0));
    assert!(text(&record.stdout) == counted("line", 120_000), "standard output differs after {kills} kills");
    assert!(text(&record.stderr) == counted("error", 2000), "standard error differs after {kills} kills");
}

#[tokio::test]
async fn a_new_link_goes_on_where_the_host_s_store_ends() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    host.begin(shell(COUNTING)).await;
    let mut record = HostRecord::default();
    for _ in 0..20 {
        host.resume(&record).await;
        let some = async {
            for _ in 0..3 {
                host.follow_one(&mut record).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(500), some).await;
        drop(host);
        host = machine.host().await;
    }
    assert_eq!(host.follow(&mut record).await, own(0));
    assert!(text(&record.stdout) == counted("line", 120_000));
    assert_eq!(record.kinds(), ["started", "ended"]);
}

#[tokio::test]
async fn unacknowledged_output_is_sent_again_on_the_next_link() {
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    host.begin(shell("echo once")).await;
    for _ in 0..3 {
        // Receives everything, commits nothing.
        host.resume(&HostRecord::default()).await;
        let mut record = HostRecord::default();
        within(async {
            while record.kinds().last() != Some(&"ended") {
                record.take(host.events.receive().await.unwrap().unwrap());
            }
        })
        .await;
        assert_eq!(text(&record.stdout), "once\n");
        drop(host);
        host = machine.host().await;
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// R9: a flood flows at the host's pace, in flat memory, head and tail intact.
#[tokio::test]
async fn r9_a_flood_of_output_flows_in_flat_memory() {
    const MEGABYTES: u64 = 400;
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    let code = format!("echo head; head -c {MEGABYTES}M /dev/zero; echo tail");
    host.begin(BeginJob { timeout_ms: 600_000, ..shell(&code) }).await;
    let record = HostRecord::default();
    host.resume(&record).await;
    let before = resident_bytes();
    let began = Instant::now();
    let (mut end, mut unacknowledged, mut sequence, mut most) = (0_u64, 0, 0, 0);
    let (mut first, mut last) = (None, Bytes::new());
    tokio::time::timeout(Duration::from_secs(120), async {
        loop {
            match host.events.receive().await.unwrap().unwrap() {
                Frame::Data(frame) => {
                    let chunk = OutputChunk::decode(frame).unwrap();
                    assert_eq!(chunk.offset, end);
                    end += chunk.bytes.len() as u64;
                    unacknowledged += chunk.bytes.len();
                    first.get_or_insert(chunk.bytes.clone());
                    last = chunk.bytes;
                }
                Frame::Message(message) => {
                    let event: SequencedEvent = serde_json::from_slice(&message).unwrap();
                    sequence = event.sequence;
                    if matches!(event.event, GuestEvent::Ended { .. }) {
                        return;
                    }
                }
            }
            if unacknowledged >= 1 << 20 {
                unacknowledged = 0;
                let output = OutputOffsets { stdout: end, stderr: 0 };
                host.events.send_message(&Ack { sequence, output }).await.unwrap();
                most = most.max(resident_bytes());
            }
        }
    })
    .await
    .unwrap();
    let rate = MEGABYTES as f64 / began.elapsed().as_secs_f64();
    println!("{rate:.0} MiB/s, resident {} KiB more at most", most.saturating_sub(before) / 1024);
    assert_eq!(end, MEGABYTES * 1024 * 1024 + 10);
    assert!(first.unwrap().starts_with(b"head\n") && last.ends_with(b"tail\n"));
    assert!(most.saturating_sub(before) < 32 * 1024 * 1024, "{} bytes more", most - before);
}

/// With no host to take it, output stops at the spool's bound and the job waits; nothing is lost when a host comes.
#[tokio::test]
async fn without_a_host_the_job_waits_and_loses_nothing() {
    const BYTES: u64 = 100 * 1024 * 1024;
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    host.begin(BeginJob {
        idle_timeout_ms: Some(500),
        ..shell(&format!("yes | head -c {BYTES}; touch done"))
    })
    .await;
    drop(host);
    let link = machine.link().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!machine.workspace().join("done").exists(), "the job did not wait");
    let spool = machine.folder.path().join("spool/output/main/stdout");
    let size: u64 =
        std::fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(size <= crate::limits::SPOOL_BYTES);
    let events = within(link.accept()).await.unwrap();
    let mut host = TestHost { link, events: Framed::new(events, limits()) };
    let mut record = HostRecord::default();
    assert_eq!(host.follow(&mut record).await, own(0));
    assert_eq!(record.stdout.len() as u64, BYTES);
    assert!(record.stdout.chunks(2).all(|pair| pair == b"y\n"));
}
