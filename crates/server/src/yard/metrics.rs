//! Counters of the yard, rendered as Prometheus text.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::RoomInUse;
use crate::job::JobState;
use crate::store::StateCounts;

/// Upper bounds of the start histogram, in seconds: bubblewrap's cost, the target, and trouble.
const START_BOUNDS: [f64; 8] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0];

/// Everything the yard counts since it was started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) jobs_accepted: AtomicU64,
    pub(crate) sandboxes_started: AtomicU64,
    pub(crate) sandbox_starts_failed: AtomicU64,
    pub(crate) sandboxes_adopted: AtomicU64,
    pub(crate) links: AtomicU64,
    pub(crate) output_bytes: AtomicU64,
    pub(crate) stale_writes: AtomicU64,
    pub(crate) leases_lost: AtomicU64,
    pub(crate) artifact_bytes: AtomicU64,
    pub(crate) jobs_retired: AtomicU64,
    start_seconds: [AtomicU64; START_BOUNDS.len()],
    start_count: AtomicU64,
    start_microseconds: AtomicU64,
}

impl Metrics {
    /// Records the time from the claim of a job to its running process.
    pub(crate) fn started(&self, took: Duration) {
        self.start_count.fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.start_microseconds.fetch_add(microseconds, Ordering::Relaxed);
        for (bound, bucket) in START_BOUNDS.iter().zip(&self.start_seconds) {
            if took.as_secs_f64() <= *bound {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Renders the text, with figures from outside: jobs by state, and the room in use.
    pub(crate) fn render(&self, jobs: &StateCounts, in_use: RoomInUse) -> String {
        let mut text =
            String::from("# HELP sandyard_jobs Jobs in the store, by state.\n# TYPE sandyard_jobs gauge\n");
        for (state, count) in JobState::ALL.iter().zip(jobs) {
            let _ = writeln!(text, "sandyard_jobs{{state=\"{}\"}} {count}", state.as_str());
        }
        gauge(&mut text, "sandyard_sandboxes", "Sandboxes that hold room.", in_use.sandboxes as u64);
        gauge(&mut text, "sandyard_reserved_memory_mib", "Memory promised to sandboxes.", in_use.memory_mib);
        gauge(&mut text, "sandyard_reserved_disk_mib", "Disk space promised to sandboxes.", in_use.disk_mib);
        for (name, help, counter) in self.counters() {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            let _ = writeln!(text, "{name} {}", counter.load(Ordering::Relaxed));
        }
        self.render_starts(&mut text);
        text
    }

    fn counters(&self) -> [(&'static str, &'static str, &AtomicU64); 10] {
        [
            ("sandyard_jobs_accepted_total", "Jobs accepted.", &self.jobs_accepted),
            ("sandyard_sandboxes_started_total", "Sandboxes started.", &self.sandboxes_started),
            (
                "sandyard_sandbox_starts_failed_total",
                "Sandboxes that did not start.",
                &self.sandbox_starts_failed,
            ),
            ("sandyard_sandboxes_adopted_total", "Sandboxes taken over alive.", &self.sandboxes_adopted),
            ("sandyard_links_total", "Links made.", &self.links),
            ("sandyard_output_bytes_total", "Output committed.", &self.output_bytes),
            (
                "sandyard_stale_writes_total",
                "Writes refused because another owner had the job.",
                &self.stale_writes,
            ),
            ("sandyard_leases_lost_total", "Jobs whose lease ran out here.", &self.leases_lost),
            ("sandyard_artifact_bytes_total", "Bytes of artifacts stored.", &self.artifact_bytes),
            ("sandyard_jobs_retired_total", "Jobs removed by retention.", &self.jobs_retired),
        ]
    }

    fn render_starts(&self, text: &mut String) {
        let name = "sandyard_start_seconds";
        let _ = writeln!(
            text,
            "# HELP {name} From the claim of a job to its running process.\n# TYPE {name} histogram"
        );
        for (bound, bucket) in START_BOUNDS.iter().zip(&self.start_seconds) {
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {}", bucket.load(Ordering::Relaxed));
        }
        let count = self.start_count.load(Ordering::Relaxed);
        let sum = Duration::from_micros(self.start_microseconds.load(Ordering::Relaxed)).as_secs_f64();
        let _ =
            writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}");
    }
}

fn gauge(text: &mut String, name: &str, help: &str, value: u64) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
}

/// Adds one to a counter. Relaxed: counters order nothing else.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_state_and_cumulates_the_histogram() {
        let metrics = Metrics::default();
        metrics.started(Duration::from_millis(7));
        count(&metrics.stale_writes);
        let text = metrics
            .render(&[1, 0, 0, 0, 0, 2, 0, 0, 0], RoomInUse { sandboxes: 3, memory_mib: 4096, disk_mib: 1 });
        assert!(text.contains("sandyard_jobs{state=\"queued\"} 1\n"));
        assert!(text.contains("sandyard_jobs{state=\"succeeded\"} 2\n"));
        assert!(text.contains("sandyard_start_seconds_bucket{le=\"0.005\"} 0\n"));
        assert!(text.contains("sandyard_start_seconds_bucket{le=\"0.01\"} 1\n"));
        assert!(text.contains("sandyard_start_seconds_bucket{le=\"+Inf\"} 1\n"));
        assert!(text.contains("sandyard_stale_writes_total 1\n"));
    }
}
