//! The stream of a loop in wrong hands: its requests, the texts behind them, and the rows that its entries make.

use sandyard_pipe::Framed;
use sandyard_protocol::DeskRequest;
use tokio::io::{AsyncWriteExt as _, duplex};

use super::super::{FRAME_LIMITS, read_request};
use super::*;
use crate::job::apply::{Applied, first_entry};
use crate::job::{JobState, TaskRow, samples};

/// Room of a stream in memory: the longest input of a search, and the seeds.
const STREAM_BYTES: usize = 256 * 1024;

/// Reads requests as the service does, up to the first that ends the connection. Returns how many there were.
async fn hear(bytes: &[u8]) -> usize {
    let (ours, mut theirs) = duplex(STREAM_BYTES);
    theirs.write_all(bytes).await.unwrap();
    drop(theirs);
    let (mut receiver, _sender) = Framed::new(ours, FRAME_LIMITS).split();
    let mut row = JobRow { task: Some(TaskRow::default()), state: JobState::Running, ..samples::job_row() };
    let mut count = 0;
    while let Ok(request) = read_request(receiver.receive().await) {
        count += 1;
        match request {
            DeskRequest::Append { entry, kept, .. } => {
                append(&mut row, &entry);
                for text in kept.into_iter().filter(|text| text.bytes <= STREAM_BYTES as u64) {
                    let Ok(bytes) = receive(&mut receiver, text.bytes).await else { return count };
                    assert_eq!(bytes.len() as u64, text.bytes);
                }
            }
            DeskRequest::Read { question: Some(question), .. } => {
                if let Some(query) = query(*question) {
                    assert!((1..=MAX_PASSAGES as usize).contains(&query.count));
                    assert!(query.text.len() <= MAX_QUESTION_BYTES);
                }
            }
            DeskRequest::Open { .. } | DeskRequest::Read { .. } => {}
        }
    }
    count
}

/// Adds an entry to a row as its commit does. The row stores the entry as text, which is all that a later server has.
fn append(row: &mut JobRow, entry: &JournalEntry) {
    let before = row.task.as_ref().map_or(0, |task| task.entries);
    let mut applied = Applied::default();
    if first_entry(row, entry, 0, &mut applied).is_err() {
        row.task = Some(TaskRow::default());
        return;
    }
    assert_eq!(row.task.as_ref().map(|task| task.entries), Some(before + 1));
    let [stored] = applied.journal.as_slice() else { panic!("one entry is one row") };
    // The host alone writes entries with sums of money, whose last digit may differ after a reading.
    if !matches!(entry, JournalEntry::Said { .. }) {
        assert_eq!(&serde_json::from_str::<JournalEntry>(&stored.text).unwrap(), entry);
    }
}

/// Whatever comes is a request within its bounds, or the end of the connection.
#[test]
fn fuzz_desk() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "desk").run(|bytes| {
        runtime.block_on(hear(bytes));
    });
}

/// Seeds that are all refused would test the first check and nothing behind it.
#[tokio::test]
async fn the_sound_seeds_are_heard_to_their_end() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/desk");
    for (seed, requests) in [("open_and_read", 3), ("entries", 9), ("kept", 2), ("empty_part", 1)] {
        assert_eq!(hear(&std::fs::read(folder.join(seed)).unwrap()).await, requests, "{seed}");
    }
}
