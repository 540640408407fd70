//! Feeds a parser mutated inputs: seeds from a corpus, changed a little, many times.
//!
//! A target is a function that takes bytes and must neither panic nor take long. Its corpus is a folder of small files in the
//! repository: sound inputs of every kind, and inputs that once broke it. A run is bounded by time: a second by default, a minute
//! with `SANDYARD_SOAK`. It begins with the corpus as it is, then mutates with a seed that is fixed by default and differs
//! from run to run in a soak. An input that makes the target panic is made shorter while it still does, and written beside the
//! panic's message, ready to be put into the corpus.
//!
//! There is no feedback from coverage: that needs a nightly compiler. Corpora name the interesting places instead.

#![warn(missing_docs)]

mod mutation;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use mutation::Mutator;

/// Time of a run in the ordinary tests.
const SHORT: Duration = Duration::from_secs(1);
/// Time of a run in the soak.
const LONG: Duration = Duration::from_secs(60);
/// Longest input that mutation makes. Parsers have bounds of their own, which corpora test.
const MAX_INPUT_BYTES: usize = 64 * 1024;
/// Variable that asks for the long runs.
const SOAK: &str = "SANDYARD_SOAK";
/// Attempts to make a bad input shorter.
const SHORTENINGS: usize = 2000;

/// The inputs of one target, by name.
#[derive(Debug, Clone)]
pub struct FuzzCorpus {
    folder: PathBuf,
    seeds: Vec<Vec<u8>>,
}

/// An input that broke a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadInput {
    /// The input, shortened.
    pub bytes: Vec<u8>,
    /// Number of inputs that the target took before.
    pub after: u64,
}

impl FuzzCorpus {
    /// Reads the corpus `corpus/NAME` of a crate; `crate_folder` is its `CARGO_MANIFEST_DIR`.
    ///
    /// # Panics
    ///
    /// Without any readable file: a target without seeds tests next to nothing.
    pub fn of(crate_folder: &str, name: &str) -> Self {
        let folder = Path::new(crate_folder).join("corpus").join(name);
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        // The same order on every host, or a seed would not repeat a run.
        files.sort();
        let seeds: Vec<Vec<u8>> = files.iter().filter_map(|file| std::fs::read(file).ok()).collect();
        assert!(!seeds.is_empty(), "{} has no seed", folder.display());
        Self { folder, seeds }
    }

    /// Runs a target with the corpus and with mutations of it, for as long as the tests ask for.
    ///
    /// # Panics
    ///
    /// If the target panics, with the input.
    #[expect(clippy::print_stdout, reason = "the number of inputs is the result of a soak")]
    pub fn run(&self, target: impl FnMut(&[u8])) {
        let soak = std::env::var_os(SOAK).is_some();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = if soak { now.as_nanos() as u64 } else { 1 };
        match self.search(if soak { LONG } else { SHORT }, seed, target) {
            Ok(count) => println!("{}: {count} inputs", self.folder.display()),
            Err(bad) => {
                let text: String = bad.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                panic!(
                    "input {} of seed {seed} breaks the target; as a file of {}: printf {text} | xxd -r -p",
                    bad.after,
                    self.folder.display()
                );
            }
        }
    }

    /// Looks for an input that makes the target panic.
    pub fn search(&self, time: Duration, seed: u64, mut target: impl FnMut(&[u8])) -> Result<u64, BadInput> {
        let end = Instant::now() + time;
        let mut mutator = Mutator::new(seed);
        let mut count = 0;
        for bytes in &self.seeds {
            check(&mut target, bytes, count)?;
            count += 1;
        }
        while Instant::now() < end {
            let bytes = mutator.next(&self.seeds, MAX_INPUT_BYTES);
            check(&mut target, &bytes, count)?;
            count += 1;
        }
        Ok(count)
    }
}

fn check(target: &mut impl FnMut(&[u8]), bytes: &[u8], after: u64) -> Result<(), BadInput> {
    if !breaks(target, bytes) {
        return Ok(());
    }
    Err(BadInput { bytes: shortened(target, bytes), after })
}

fn breaks(target: &mut impl FnMut(&[u8]), bytes: &[u8]) -> bool {
    // A target keeps nothing between two inputs, so a panic leaves nothing half done.
    catch_unwind(AssertUnwindSafe(|| target(bytes))).is_err()
}

/// Cuts pieces out of an input while it still breaks the target.
fn shortened(target: &mut impl FnMut(&[u8]), bytes: &[u8]) -> Vec<u8> {
    let (mut best, mut piece, mut left) = (bytes.to_vec(), bytes.len() / 2, SHORTENINGS);
    while piece > 0 {
        let mut at = 0;
        while at + piece <= best.len() && left > 0 {
            let mut shorter = best.clone();
            shorter.drain(at..at + piece);
            left -= 1;
            if breaks(target, &shorter) { best = shorter } else { at += piece }
        }
        piece /= 2;
    }
    best
}
