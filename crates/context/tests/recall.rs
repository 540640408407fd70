//! Recall over an index in a folder: what is found, what citations say, and what happens to files of the index.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sandyard_context::index::{LexicalSettings, MemoryIndex, SourceText};
use sandyard_context::recall;
use sandyard_context::recall::{FusionSettings, RecallAnswer, RecallQuestion};
use sandyard_memory::terms::{stem, terms};
use sandyard_memory::{RecallScope, SourceId, SourceOrigin, SourceReader, SourceRecord};

/// Sources in memory, as the journal would keep them.
#[derive(Default)]
struct KeptTexts(BTreeMap<SourceId, (SourceOrigin, String, String)>);

impl KeptTexts {
    fn say(&mut self, number: u64, origin: SourceOrigin, path: &str, text: &str) {
        let id = SourceId { number, part: 0 };
        self.0.insert(id, (origin, path.to_owned(), text.to_owned()));
    }

    /// Adds everything that the index lacks.
    fn sync(&self, index: &mut MemoryIndex) {
        for (&id, (origin, path, text)) in &self.0 {
            let source =
                SourceText { id, origin: *origin, path, at_ms: id.number * 1000, bytes: text.as_bytes() };
            index.add(source).unwrap();
        }
    }
}

impl SourceReader for KeptTexts {
    fn read(&self, source: &SourceRecord) -> Option<Vec<u8>> {
        self.0.get(&source.id).map(|(_, _, text)| text.clone().into_bytes())
    }
}

fn open(folder: &Path) -> (MemoryIndex, usize) {
    let (index, opening) = MemoryIndex::open(folder, LexicalSettings::default(), None).unwrap();
    (index, opening.dropped.len())
}

fn ask(index: &MemoryIndex, kept: &KeptTexts, text: &str, scope: RecallScope) -> RecallAnswer {
    recall(index, kept, &RecallQuestion { text, count: 5, scope }, &FusionSettings::default())
}

fn first(answer: &RecallAnswer) -> (u64, String) {
    let best = answer.passages.first().expect("a passage");
    (best.place.source.id.number, best.words().into_owned())
}

fn story() -> KeptTexts {
    let mut kept = KeptTexts::default();
    kept.say(
        1,
        SourceOrigin::Person,
        "task",
        "Please build a shop. The database password is never to be written into the log.",
    );
    kept.say(2, SourceOrigin::Result, "shell", "npm install\nadded 120 packages in 4s\n");
    kept.say(3, SourceOrigin::File, "src/cart.py", "import json\n\ndef add_to_cart(cart, item):\n    cart.append(item)\n    return cart\n\ndef total_price(cart):\n    return sum(item.price for item in cart)\n");
    kept.say(
        4,
        SourceOrigin::Result,
        "shell",
        "Traceback (most recent call last):\nValueError: negative quantity in order 17\n",
    );
    for number in 5..60 {
        kept.say(
            number,
            SourceOrigin::Result,
            "shell",
            &format!("compiled module {number} without warnings\n"),
        );
    }
    kept
}

#[test]
fn questions_find_their_passages_with_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (mut index, _) = open(folder.path());
    let kept = story();
    kept.sync(&mut index);
    let everything = RecallScope::default;
    let answer = ask(&index, &kept, "how is the total price computed", everything());
    let best = &answer.passages[0];
    assert_eq!((best.place.source.path.as_str(), best.name.contains("total_price")), ("src/cart.py", true));
    assert!(best.place.first_line <= 7 && best.place.last_line >= 8, "{:?}", best.place);
    assert_eq!(first(&ask(&index, &kept, "negative quantities", everything())).0, 4);
    let person = RecallScope { origins: vec![SourceOrigin::Person], ..RecallScope::default() };
    assert_eq!(first(&ask(&index, &kept, "log", person.clone())).0, 1);
    assert!(
        ask(&index, &kept, "compiled module", person).passages.iter().all(|passage| passage
            .place
            .source
            .id
            .number
            == 1)
    );
    let early = RecallScope { numbers: Some(1..=3), ..RecallScope::default() };
    assert!(
        ask(&index, &kept, "ValueError", early)
            .passages
            .iter()
            .all(|passage| passage.place.source.id.number <= 3)
    );
}

#[test]
fn a_text_that_is_seen_again_is_stored_once_and_cited_at_its_newest_place() {
    let folder = tempfile::tempdir().unwrap();
    let (mut index, _) = open(folder.path());
    let mut kept = story();
    kept.sync(&mut index);
    let before = index.statistics();
    let file = kept.0[&SourceId { number: 3, part: 0 }].2.clone();
    kept.say(70, SourceOrigin::File, "src/cart.py", &file);
    kept.sync(&mut index);
    let after = index.statistics();
    assert_eq!(after.chunks, before.chunks);
    assert!(after.repeats > before.repeats);
    let answer = ask(&index, &kept, "total_price", RecallScope::default());
    assert_eq!((answer.passages[0].place.source.id.number, answer.passages[0].seen), (70, 2));
    let early = RecallScope { numbers: Some(1..=50), ..RecallScope::default() };
    assert_eq!(first(&ask(&index, &kept, "total_price", early)).0, 3);
    // The same through files: a repeat in a later segment refers to a document in an earlier one.
    index.flush().unwrap();
    let answer = ask(&index, &kept, "total_price", RecallScope::default());
    assert_eq!((answer.passages[0].place.source.id.number, answer.passages[0].seen), (70, 2));
}

#[test]
fn a_new_process_finds_what_was_flushed_and_learns_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = story();
    {
        let (mut index, _) = open(folder.path());
        kept.sync(&mut index);
        index.flush().unwrap();
        let busy = MemoryIndex::open(folder.path(), LexicalSettings::default(), None);
        assert!(matches!(busy, Err(sandyard_context::index::IndexError::Busy { .. })));
    }
    kept.say(90, SourceOrigin::Person, "said", "Prices are in Swiss francs.");
    let (mut index, dropped) = open(folder.path());
    assert_eq!((dropped, index.statistics().sources), (0, 59));
    assert!(
        ask(&index, &kept, "francs", RecallScope::default()).passages.iter().all(|passage| passage
            .place
            .source
            .id
            .number
            != 90)
    );
    kept.sync(&mut index);
    assert_eq!(first(&ask(&index, &kept, "francs", RecallScope::default())).0, 90);
}

#[test]
fn forgotten_sources_are_not_found_and_their_room_is_freed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut index, _) = open(folder.path());
    let mut kept = story();
    let file = kept.0[&SourceId { number: 3, part: 0 }].2.clone();
    kept.say(80, SourceOrigin::File, "src/cart.py", &file);
    kept.sync(&mut index);
    index.flush().unwrap();
    index.retain(|id, _| id.number >= 50);
    let check = |index: &MemoryIndex| {
        assert!(
            ask(index, &kept, "negative quantity", RecallScope::default())
                .passages
                .iter()
                .all(|passage| passage.place.source.id.number >= 50)
        );
        let answer = ask(index, &kept, "total_price", RecallScope::default());
        assert_eq!((answer.passages[0].place.source.id.number, answer.passages[0].seen), (80, 1));
        assert_eq!(first(&ask(index, &kept, "compiled module 55", RecallScope::default())).0, 55);
    };
    check(&index);
    let chunks = index.statistics().chunks;
    assert!(index.tidy().unwrap());
    assert!(index.statistics().chunks < chunks);
    check(&index);
    drop(index);
    let (index, dropped) = open(folder.path());
    assert_eq!(dropped, 0);
    check(&index);
}

#[test]
fn a_source_that_changed_behind_the_index_is_never_cited() {
    let folder = tempfile::tempdir().unwrap();
    let (mut index, _) = open(folder.path());
    let mut kept = story();
    kept.sync(&mut index);
    kept.say(
        4,
        SourceOrigin::Result,
        "shell",
        "Traceback (most recent call last):\nValueError: negative quantity in order 18\n",
    );
    let answer = ask(&index, &kept, "negative quantity", RecallScope::default());
    assert!(answer.passages.iter().all(|passage| passage.place.source.id.number != 4));
    assert!(answer.unverified > 0);
}

/// Ways to damage a file.
#[derive(Debug, Clone)]
enum Damage {
    Flip { place: usize, bit: u8 },
    Truncate { place: usize },
    Delete,
    Extend { bytes: Vec<u8> },
    Replace { bytes: Vec<u8> },
    SwapWithOther,
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        4 => (any::<usize>(), 0u8..8).prop_map(|(place, bit)| Damage::Flip { place, bit }),
        2 => any::<usize>().prop_map(|place| Damage::Truncate { place }),
        1 => Just(Damage::Delete),
        1 => bytes().prop_map(|bytes| Damage::Extend { bytes }),
        1 => bytes().prop_map(|bytes| Damage::Replace { bytes }),
        1 => Just(Damage::SwapWithOther),
    ]
}

impl Damage {
    fn apply(&self, files: &[PathBuf], which: usize) {
        let file = &files[which % files.len()];
        let mut bytes = fs::read(file).unwrap();
        match self {
            Self::Flip { place, bit } => {
                let place = place % bytes.len();
                bytes[place] ^= 1 << bit;
            }
            Self::Truncate { place } => bytes.truncate(place % bytes.len()),
            Self::Delete => return fs::remove_file(file).unwrap(),
            Self::Extend { bytes: more } => bytes.extend(more),
            Self::Replace { bytes: other } => bytes = other.clone(),
            Self::SwapWithOther => {
                let other = &files[(which + 1) % files.len()];
                let others = fs::read(other).unwrap();
                fs::write(other, &bytes).unwrap();
                bytes = others;
            }
        }
        fs::write(file, bytes).unwrap();
    }
}

fn segment_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
        .collect();
    files.sort();
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_index_damaged_in_any_way_opens_is_rebuilt_and_cites_rightly(
        damages in prop::collection::vec((damage(), any::<usize>()), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = story();
        {
            let (mut index, _) = open(folder.path());
            kept.sync(&mut index);
            index.flush().unwrap();
            let file = kept.0[&SourceId { number: 3, part: 0 }].2.clone();
            kept.say(70, SourceOrigin::File, "src/cart.py", &file);
            kept.sync(&mut index);
            index.flush().unwrap();
            kept.say(71, SourceOrigin::Model, "answer", "The francs are Swiss.");
            kept.sync(&mut index);
            index.flush().unwrap();
        }
        for (damage, which) in &damages {
            let files = segment_files(folder.path());
            if !files.is_empty() && fs::metadata(&files[which % files.len()]).unwrap().len() > 0 {
                damage.apply(&files, *which);
            }
        }
        let (mut index, _) = open(folder.path());
        // Even before the rebuild, nothing wrong is cited.
        let answer = ask(&index, &kept, "total_price", RecallScope::default());
        for passage in &answer.passages {
            let text = &kept.0[&passage.place.source.id].2;
            let start = passage.place.start as usize;
            prop_assert_eq!(&text.as_bytes()[start..start + passage.text.len()], passage.text.as_slice());
        }
        kept.sync(&mut index);
        let answer = ask(&index, &kept, "total_price", RecallScope::default());
        prop_assert_eq!((answer.passages[0].place.source.id.number, answer.passages[0].seen), (70, 2));
        prop_assert_eq!(first(&ask(&index, &kept, "negative quantity", RecallScope::default())).0, 4);
        prop_assert_eq!(first(&ask(&index, &kept, "francs", RecallScope::default())).0, 71);
    }

    #[test]
    fn documents_with_a_term_are_those_that_contain_it(
        texts in prop::collection::vec(prop::collection::vec("[a-e]{3}", 1..8), 1..30),
        flushes in prop::collection::vec(any::<bool>(), 30),
        tidy in any::<bool>(),
        word in "[a-e]{3}",
    ) {
        // The naive reference: the word is in the text. Only words decide, as there is no model.
        let folder = tempfile::tempdir().unwrap();
        let (mut index, _) = open(folder.path());
        let mut kept = KeptTexts::default();
        for (number, words) in (1..).zip(&texts) {
            // Each text has a word of its own, so no two are the same.
            kept.say(number, SourceOrigin::Note, "", &format!("{} zz{number}", words.join(" ")));
            kept.sync(&mut index);
            if flushes[number as usize - 1] {
                index.flush().unwrap();
            }
        }
        while tidy && index.tidy().unwrap() {}
        let question = RecallQuestion { text: &word, count: 100, scope: RecallScope::default() };
        let answer = recall(&index, &kept, &question, &FusionSettings::default());
        let stem = stem(&word).into_owned();
        let expected: Vec<u64> = kept.0.iter()
            .filter(|(_, (_, _, text))| terms(text).contains(&stem))
            .map(|(id, _)| id.number)
            .collect();
        let mut found: Vec<u64> = answer.passages.iter().take(expected.len()).map(|passage| passage.place.source.id.number).collect();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}
