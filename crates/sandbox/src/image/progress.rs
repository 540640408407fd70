//! Progress of a build, read from the output of its tools.
//!
//! The newest report also lies in a file beside the tree being made, so that other processes can show it.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ImageFlavour;
use super::manifest::StepShare;

/// Share of fetching packages in the time of fetching and installing them.
const DOWNLOAD_PART: f64 = 0.35;

/// Number of stages that mmdebstrap announces.
const BOOTSTRAP_STAGES: f64 = 7.0;

/// Progress of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildProgress {
    /// Flavour that is built.
    pub flavour: ImageFlavour,
    /// Present phase, for people.
    pub phase: String,
    /// Part of this flavour's work that is done, in percent.
    pub percent: u8,
}

/// Tracks one build and reports each new percent or phase once.
pub(super) struct Reporter<'a> {
    flavour: ImageFlavour,
    listener: &'a mut dyn FnMut(&BuildProgress),
    file: std::path::PathBuf,
    finished: f64,
    share: f64,
    fraction: f64,
    last: Option<BuildProgress>,
    phase: String,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(
        flavour: ImageFlavour,
        file: &Path,
        listener: &'a mut dyn FnMut(&BuildProgress),
    ) -> Self {
        let file = file.to_owned();
        let phase = String::new();
        Self { flavour, listener, file, finished: 0.0, share: 0.0, fraction: 0.0, last: None, phase }
    }

    /// Begins a part of the work; the previous part is done.
    pub(super) fn begin(&mut self, share: &StepShare) {
        self.finished += self.share;
        self.share = f64::from(share.percent);
        self.fraction = 0.0;
        self.phase.clone_from(&share.phase);
        self.tell();
    }

    /// Reads progress from a line that a tool printed.
    pub(super) fn line(&mut self, line: &str) {
        let fraction = if line.starts_with("I: ") {
            self.fraction + 1.0 / BOOTSTRAP_STAGES
        } else {
            apt_fraction(line).unwrap_or(0.0)
        };
        if fraction > self.fraction {
            self.fraction = fraction.min(1.0);
            self.tell();
        }
    }

    fn tell(&mut self) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 99")]
        let percent = (self.finished + self.share * self.fraction).clamp(0.0, 99.0) as u8;
        let progress = BuildProgress { flavour: self.flavour, phase: self.phase.clone(), percent };
        if self.last.as_ref() == Some(&progress) {
            return;
        }
        (self.listener)(&progress);
        // Other processes only show the file, so a build does not fail when it can't be written.
        if let Ok(text) = serde_json::to_vec(&progress) {
            drop(fs::write(&self.file, text));
        }
        self.last = Some(progress);
    }
}

/// Returns the last report of a build in another process.
pub(super) fn read(file: &Path) -> Option<BuildProgress> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Parses apt's status lines: `dlstatus:<n>:<percent>:<words>` while fetching,
/// `pmstatus:<package>:<percent>:<words>` after.
fn apt_fraction(line: &str) -> Option<f64> {
    let (kind, rest) = line.split_once(':')?;
    // A package's name may hold a colon before its architecture.
    let percent: f64 = rest.split(':').skip(1).find_map(|field| field.parse().ok())?;
    let part = (percent / 100.0).clamp(0.0, 1.0);
    match kind {
        "dlstatus" => Some(part * DOWNLOAD_PART),
        "pmstatus" => Some(DOWNLOAD_PART + part * (1.0 - DOWNLOAD_PART)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(percent: u8, phase: &str) -> StepShare {
        StepShare { percent, phase: phase.to_owned() }
    }

    #[test]
    fn percent_never_falls_and_repeats_are_silent() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("progress");
        let mut seen = Vec::new();
        let mut listener = |progress: &BuildProgress| seen.push((progress.phase.clone(), progress.percent));
        let mut reporter = Reporter::new(ImageFlavour::Base, &file, &mut listener);
        reporter.begin(&share(20, "first"));
        reporter.line("I: running apt-get update...");
        reporter.begin(&share(60, "second"));
        reporter.line("dlstatus:1:100.0000:Retrieving");
        reporter.line("dlstatus:2:50.0000:Retrieving");
        reporter.line("pmstatus:libc6:amd64:50.0000:Unpacking");
        reporter.line("Setting up libc6");
        reporter.line("pmstatus:dpkg-exec:100.0000:Running");
        let expected =
            [("first", 0), ("first", 2), ("second", 20), ("second", 41), ("second", 60), ("second", 80)];
        let expected: Vec<_> = expected.iter().map(|&(phase, percent)| (phase.to_owned(), percent)).collect();
        assert_eq!(seen, expected);
        assert_eq!(read(&file).map(|progress| progress.percent), Some(80));
    }

    #[test]
    fn odd_lines_mean_nothing() {
        for line in ["", "pmstatus", "pmstatus:x", "pmstatus:x:y:z", "dlstatus:1:NaN", "other:1:50"] {
            assert!(apt_fraction(line).is_none_or(f64::is_nan), "{line}");
        }
    }
}
