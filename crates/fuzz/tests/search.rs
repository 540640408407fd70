//! The search finds what it is for.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;

use sandyard_fuzz::{FuzzCorpus, Mutator};

fn corpus(seeds: &[&[u8]]) -> (tempfile::TempDir, FuzzCorpus) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("corpus/target")).unwrap();
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.path().join(format!("corpus/target/{number}")), seed).unwrap();
    }
    let corpus = FuzzCorpus::of(folder.path().to_str().unwrap(), "target");
    (folder, corpus)
}

#[test]
fn a_length_that_is_believed_is_found_and_shortened() {
    let (_folder, corpus) = corpus(&[b"\x00\x05hello", b"\x00\x02hi, and more"]);
    // The target trusts the length that the input states.
    let target = |bytes: &[u8]| {
        if let [high, low, rest @ ..] = bytes {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            assert!(length < 0x7000 || rest.len() >= length, "out of bounds");
        }
    };
    let bad = corpus.search(Duration::from_secs(60), 1, target).unwrap_err();
    assert!(bad.after > 2 && bad.bytes.len() <= 3, "{bad:?}");
}

#[test]
fn a_sound_target_passes_and_a_seed_repeats_its_inputs() {
    let (_folder, corpus) = corpus(&[b"seed", b""]);
    assert!(corpus.search(Duration::from_millis(20), 1, |_| {}).unwrap() > 2);
    let inputs = |seed| {
        let mut mutator = Mutator::new(seed);
        (0..50).map(|_| mutator.next(&[b"seed".to_vec(), b"other".to_vec()], 32)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
    assert!(inputs(9).iter().all(|bytes| bytes.len() <= 32));
}
