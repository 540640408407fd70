//! Totals over all jobs, kept beside the database by the writer, because counting would scan the table.

use rusqlite::Connection;

use crate::job::JobState;
use crate::store::StateCounts;

/// Jobs by state, and the bytes of their artifacts and output.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) states: StateCounts,
    pub(super) bytes: u64,
    /// Commits of this writer.
    #[cfg(test)]
    pub(super) commits: u64,
}

impl Counts {
    /// Counts once, when the store is opened.
    pub(super) fn read(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut counts = Self::default();
        let mut statement = connection.prepare("SELECT state, COUNT(*) FROM jobs GROUP BY state")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let state: String = row.get(0)?;
            let count: i64 = row.get(1)?;
            if let Some(state) = JobState::parse(&state) {
                counts.states[place(state)] = u64::try_from(count).unwrap_or(0);
            }
        }
        let bytes = "SELECT COALESCE(SUM(COALESCE(artifact_bytes, 0) + stdout_bytes - stdout_dropped + stderr_bytes \
                     - stderr_dropped + recording_bytes + journal_bytes + audit_bytes), 0) FROM jobs";
        counts.bytes = connection.query_row(bytes, [], |row| row.get(0))?;
        Ok(counts)
    }

    /// Counts the move of a job. `None` stands for a job that is not stored yet, or no longer.
    pub(super) fn moved(&mut self, from: Option<JobState>, to: Option<JobState>) {
        if let Some(from) = from {
            self.states[place(from)] = self.states[place(from)].saturating_sub(1);
        }
        if let Some(to) = to {
            self.states[place(to)] += 1;
        }
    }

    pub(super) fn get(&self, state: JobState) -> u64 {
        self.states[place(state)]
    }

    /// Counts a change of a job's size on disk.
    pub(super) fn resized(&mut self, before: u64, after: u64) {
        self.bytes = (self.bytes + after).saturating_sub(before);
    }
}

fn place(state: JobState) -> usize {
    JobState::ALL.iter().position(|other| *other == state).unwrap_or(0)
}
