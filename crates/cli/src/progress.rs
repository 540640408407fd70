//! Progress of long operations: a bar on a terminal, occasional lines elsewhere.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal, a line is printed for each phase and after each further share of this size.
const LINE_STEP: u8 = 10;

/// Shows the progress of one long operation.
pub(crate) struct ProgressLine {
    what: String,
    bar: Option<ProgressBar>,
    last: Option<(String, u8)>,
}

impl ProgressLine {
    pub(crate) fn new(what: &str, terminal: bool) -> Self {
        let bar = terminal.then(|| {
            let bar = ProgressBar::new(100);
            bar.set_prefix(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let progress = Self { what: what.to_owned(), bar, last: None };
        progress.style("{prefix} {bar:30} {percent:>3} % {elapsed:>4} {msg}");
        progress
    }

    /// Returns the progress of a transfer whose length may be known.
    pub(crate) fn transfer(what: &str, terminal: bool, length: Option<u64>) -> Self {
        let mut progress = Self::new(what, terminal);
        match (&progress.bar, length) {
            (Some(bar), Some(length)) => bar.set_length(length),
            (Some(bar), None) => bar.unset_length(),
            (None, _) => {}
        }
        progress.style("{prefix} {bar:30} {bytes:>10} {bytes_per_sec:>12}");
        progress.last = Some((String::new(), 0));
        progress
    }

    /// Sets the percentage and the current phase.
    pub(crate) fn set(&mut self, percent: u8, phase: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(u64::from(percent));
            bar.set_message(phase.to_owned());
            return;
        }
        if is_news(self.last.as_ref(), percent, phase) {
            // Nobody is left to tell that standard error is gone.
            drop(writeln!(std::io::stderr(), "{}: {percent} %, {phase}", self.what));
            self.last = Some((phase.to_owned(), percent));
        }
    }

    /// Adds transferred bytes to the bar.
    pub(crate) fn advance(&self, bytes: usize) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes as u64);
        }
    }

    /// The bar itself, for a transfer that another task makes; `None` without a terminal.
    pub(crate) fn bar(&self) -> Option<ProgressBar> {
        self.bar.clone()
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn style(&self, template: &str) {
        if let (Some(bar), Ok(style)) = (&self.bar, ProgressStyle::with_template(template)) {
            bar.set_style(style);
        }
    }
}

fn is_news(last: Option<&(String, u8)>, percent: u8, phase: &str) -> bool {
    last.is_none_or(|(known, at)| known != phase || percent >= at.saturating_add(LINE_STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few() {
        assert!(is_news(None, 0, "packages"));
        let last = ("packages".to_owned(), 20);
        assert!(!is_news(Some(&last), 29, "packages"));
        assert!(is_news(Some(&last), 30, "packages"));
        assert!(is_news(Some(&last), 21, "users"));
    }
}
