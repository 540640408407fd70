//! The rate at which a job's output is taken.
//!
//! The server makes output durable, which is work that the job's own limits do not cover. So output is taken from a bucket of
//! bytes that fills at a fixed rate. While the bucket is empty nothing is read from the guest: keeper's spool fills, then the
//! job's pipe, and the job waits in `write`. Nothing is lost.
//!
//! All jobs share a second bucket. Beside it each job has a small one of its own, so that floods of others do not delay a job that
//! prints little.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Seconds of the rate that a rested job may print at once.
const BURST_S: u64 = 4;
/// Rate of all jobs together, in rates of one.
const JOBS_AT_FULL_RATE: u64 = 4;
/// Part of a job's rate that others can't take.
const QUIET_PART: u64 = 16;
/// Lowest rate of a job. At the end of a job its guest has at most 64 MiB left to send, and 20 s to do it.
const LEAST_BYTES_PER_S: u64 = 4 * 1024 * 1024;

/// The rate of one job.
#[derive(Debug)]
pub(crate) struct OutputPace {
    own: ByteBucket,
    /// The part of the rate that does not depend on other jobs.
    quiet: ByteBucket,
    shared: SharedOutputPace,
}

/// The rate of all jobs together.
#[derive(Debug, Clone)]
pub(crate) struct SharedOutputPace {
    bytes_per_s: u64,
    all: Arc<Mutex<ByteBucket>>,
}

#[derive(Debug)]
struct ByteBucket {
    bytes_per_s: u64,
    burst: i64,
    /// Bytes that may be taken; below zero after a piece that was larger than the rest.
    left: i64,
    at: Instant,
}

impl SharedOutputPace {
    /// The rate of a yard in which each job may print `bytes_per_s`.
    pub(crate) fn new(bytes_per_s: u64, now: Instant) -> Self {
        let bytes_per_s = bytes_per_s.max(LEAST_BYTES_PER_S);
        let all = ByteBucket::new(bytes_per_s.saturating_mul(JOBS_AT_FULL_RATE), now);
        Self { bytes_per_s, all: Arc::new(Mutex::new(all)) }
    }

    /// The rate of a job that may write `io_bytes_per_s` to its own disk: its output counts as writing too.
    pub(crate) fn of_job(&self, io_bytes_per_s: u64, now: Instant) -> OutputPace {
        let bytes_per_s = self.bytes_per_s.min(io_bytes_per_s).max(LEAST_BYTES_PER_S);
        let quiet = ByteBucket::new(bytes_per_s / QUIET_PART, now);
        OutputPace { own: ByteBucket::new(bytes_per_s, now), quiet, shared: self.clone() }
    }
}

impl OutputPace {
    /// Charges bytes that were taken.
    pub(crate) fn charge(&mut self, bytes: usize, now: Instant) {
        self.own.take(bytes, now);
        match self.quiet.ready_at(now) {
            None => self.quiet.take(bytes, now),
            Some(_) => self.shared.all.lock().take(bytes, now),
        }
    }

    /// Returns when more may be taken; `None` for now.
    pub(crate) fn ready_at(&mut self, now: Instant) -> Option<Instant> {
        if let Some(at) = self.own.ready_at(now) {
            return Some(at);
        }
        // Whichever comes first.
        let quiet = self.quiet.ready_at(now)?;
        self.shared.all.lock().ready_at(now).map(|shared| shared.min(quiet))
    }
}

impl ByteBucket {
    fn new(bytes_per_s: u64, at: Instant) -> Self {
        let burst = i64::try_from(bytes_per_s.saturating_mul(BURST_S)).unwrap_or(i64::MAX);
        Self { bytes_per_s, burst, left: burst, at }
    }

    fn take(&mut self, bytes: usize, now: Instant) {
        self.fill(now);
        self.left = self.left.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn ready_at(&mut self, now: Instant) -> Option<Instant> {
        self.fill(now);
        let missing = u64::try_from(-self.left).ok().filter(|missing| *missing > 0)?;
        // At least a millisecond, so that a waiting session is not woken for each byte.
        Some(
            now + Duration::from_secs_f64(missing as f64 / self.bytes_per_s as f64)
                .max(Duration::from_millis(1)),
        )
    }

    fn fill(&mut self, now: Instant) {
        let passed_us = u64::try_from(now.saturating_duration_since(self.at).as_micros()).unwrap_or(u64::MAX);
        let gained = u128::from(passed_us) * u128::from(self.bytes_per_s) / 1_000_000;
        // A moment too short for a byte is kept for the next call.
        if gained > 0 {
            self.left = self.left.saturating_add(i64::try_from(gained).unwrap_or(i64::MAX)).min(self.burst);
            self.at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    /// Takes pieces of 64 KiB for that long; returns the bytes.
    fn flood(pace: &mut OutputPace, begin: Instant, for_s: u64) -> u64 {
        let (mut now, mut taken) = (begin, 0);
        while now < begin + Duration::from_secs(for_s) {
            match pace.ready_at(now) {
                Some(at) => now = at,
                None => {
                    pace.charge(64 * 1024, now);
                    taken += 64 * 1024;
                }
            }
        }
        taken
    }

    #[test]
    fn f17_a_flood_is_taken_at_its_rate_after_a_burst() {
        let begin = Instant::now();
        let yard = SharedOutputPace::new(16 * MIB, begin);
        let taken = flood(&mut yard.of_job(256 * MIB, begin), begin, 10);
        let expected = (10 + BURST_S) * 16 * MIB;
        assert!(taken.abs_diff(expected) <= MIB, "{taken} of {expected}");
        // A job with a smaller limit of writing prints less, but never too little to end in time.
        let yard = SharedOutputPace::new(16 * MIB, begin);
        for (io_mib_s, rate) in [(8, 8), (1, 4)] {
            let taken = flood(&mut yard.of_job(io_mib_s * MIB, begin), begin, 10);
            assert!(taken.abs_diff((10 + BURST_S) * rate * MIB) <= MIB, "{io_mib_s}: {taken}");
        }
    }

    #[test]
    fn f17_floods_of_many_jobs_hold_each_other_and_no_quiet_job() {
        let begin = Instant::now();
        let yard = SharedOutputPace::new(16 * MIB, begin);
        let mut now = begin;
        let mut floods: Vec<_> = (0..40).map(|_| yard.of_job(256 * MIB, begin)).collect();
        let mut quiet = yard.of_job(256 * MIB, begin);
        let mut taken = 0;
        while now < begin + Duration::from_secs(10) {
            for pace in &mut floods {
                if pace.ready_at(now).is_none() {
                    pace.charge(64 * 1024, now);
                    taken += 64 * 1024;
                }
            }
            assert_eq!(quiet.ready_at(now), None, "a job that prints little is not held");
            quiet.charge(512, now);
            now += Duration::from_millis(1);
        }
        let all = (10 + BURST_S) * JOBS_AT_FULL_RATE * 16 * MIB;
        let quiet_parts = 40 * (10 + BURST_S) * 16 * MIB / QUIET_PART;
        let bound = all + quiet_parts + 40 * 2 * 64 * 1024;
        assert!(taken <= bound, "{taken} of {bound}");
        assert!(taken > all / 2, "{taken} of {all}");
    }
}
