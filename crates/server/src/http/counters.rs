//! Counts of answers, for `/metrics`.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Answers by the first digit of their status.
#[derive(Debug, Default)]
pub(super) struct Counters {
    classes: [AtomicU64; 5],
}

impl Counters {
    /// Counts one answer.
    pub(super) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(4);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts as Prometheus text.
    pub(super) fn render(&self, text: &mut String) {
        text.push_str("# HELP sandyard_http_responses_total Answers by class of status.\n");
        text.push_str("# TYPE sandyard_http_responses_total counter\n");
        for (index, count) in self.classes.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            // Writing to a String does not fail.
            let _ = writeln!(text, "sandyard_http_responses_total{{class=\"{}xx\"}} {count}", index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_class() {
        let counters = Counters::default();
        counters.count(StatusCode::NOT_FOUND);
        counters.count(StatusCode::OK);
        let mut text = String::new();
        counters.render(&mut text);
        assert!(text.contains("{class=\"2xx\"} 1") && text.contains("{class=\"4xx\"} 1"), "{text}");
    }
}
