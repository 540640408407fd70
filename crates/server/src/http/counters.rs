//! Counts of answers, for `/metrics`.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Answers by the first digit of their status, and requests that have none yet.
#[derive(Debug, Default)]
pub(in crate::http) struct HttpCounters {
    classes: [AtomicU64; 5],
    in_flight: AtomicU64,
    closed: AtomicU64,
}

/// A request without an answer. It counts until it is dropped, also when the client leaves.
#[derive(Debug)]
pub(in crate::http) struct RequestInFlight<'a>(&'a AtomicU64);

impl Drop for RequestInFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpCounters {
    /// Counts a request until the result is dropped.
    pub(in crate::http) fn begin(&self) -> RequestInFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestInFlight(&self.in_flight)
    }

    /// Counts an answer by the class of its status.
    pub(in crate::http) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(4);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts connections that were closed to make room for others.
    pub(in crate::http) fn count_closed(&self, connections: usize) {
        self.closed.fetch_add(connections as u64, Ordering::Relaxed);
    }

    /// The counts as Prometheus text.
    pub(in crate::http) fn render(&self, text: &mut String) {
        text.push_str("# HELP sandyard_http_responses_total Answers by class of status.\n");
        text.push_str("# TYPE sandyard_http_responses_total counter\n");
        for (index, count) in self.classes.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            // Writing to a String does not fail.
            let _ = writeln!(text, "sandyard_http_responses_total{{class=\"{}xx\"}} {count}", index + 1);
        }
        text.push_str("# HELP sandyard_http_requests_in_flight Requests that have no answer yet.\n");
        text.push_str("# TYPE sandyard_http_requests_in_flight gauge\n");
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let _ = writeln!(text, "sandyard_http_requests_in_flight {in_flight}");
        text.push_str(
            "# HELP sandyard_http_connections_closed_total Connections closed to make room for others.\n",
        );
        text.push_str("# TYPE sandyard_http_connections_closed_total counter\n");
        let closed = self.closed.load(Ordering::Relaxed);
        let _ = writeln!(text, "sandyard_http_connections_closed_total {closed}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_class() {
        let counters = HttpCounters::default();
        counters.count(StatusCode::NOT_FOUND);
        counters.count(StatusCode::OK);
        drop(counters.begin());
        let _unanswered = counters.begin();
        let mut text = String::new();
        counters.render(&mut text);
        assert!(text.contains("{class=\"2xx\"} 1") && text.contains("{class=\"4xx\"} 1"), "{text}");
        assert!(text.contains("in_flight 1"), "{text}");
    }
}
