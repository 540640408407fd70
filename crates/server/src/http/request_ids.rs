//! The ids of requests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Gives each request its id: a random part for the process, then a number.
#[derive(Debug)]
pub(super) struct RequestIds {
    process: u32,
    next: AtomicU64,
}

impl RequestIds {
    /// Ids that differ from those of other processes; without randomness they begin with zeros.
    pub(super) fn new() -> Self {
        let mut process = [0; 4];
        if getrandom::fill(&mut process).is_err() {
            tracing::warn!("no randomness for request ids");
        }
        Self { process: u32::from_be_bytes(process), next: AtomicU64::new(1) }
    }

    pub(super) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:08x}-{number:x}", self.process)
    }
}
