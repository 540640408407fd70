//! Copies the rows of a yard from one store into another, and compares every row afterwards.
//!
//! Neither side may have a server meanwhile. A job's row is written last, so that a copy that was interrupted goes on behind the jobs
//! that are complete; one that has changed since is copied again. Leases are not copied: no server works on the yard.

mod place;

use std::collections::HashSet;

pub use self::place::{BadCopyPlace, CopyPlace};

use super::copy_side::{CopiedTable, CopySide, JOB_TABLES, YARD_AUDIT};
use super::{OpenStoreError, StoreError};
use crate::job::JobRow;

/// Jobs and rows that are read at once.
const PAGE: usize = 500;

/// A copy that can't be made or finished. What is copied so far is complete, and the same command goes on.
#[derive(Debug, thiserror::Error)]
pub enum CopyStoreError {
    /// One of the stores can't be opened, or has a server.
    #[error("open {place}")]
    Open {
        /// The store.
        place: String,
        /// The reason, of a type that only stores know.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Reading or writing failed.
    #[error("copy the store")]
    Rows(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The target has jobs of another yard.
    #[error("{place} has jobs that are not in the yard to be copied")]
    OtherYard {
        /// The target.
        place: String,
    },
    /// A row of the target is not what was written.
    #[error("the copy differs: {what} of job {job}")]
    Differs {
        /// The table.
        what: &'static str,
        /// The number of the job; 0 for rows of the yard.
        job: i64,
    },
}

impl From<StoreError> for CopyStoreError {
    fn from(error: StoreError) -> Self {
        Self::Rows(Box::new(error))
    }
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Jobs of the yard.
    pub jobs: u64,
    /// Jobs that are copied and compared.
    pub done: u64,
    /// Of these, jobs that an earlier run had copied.
    pub found: u64,
    /// Rows beside those of jobs that were copied.
    pub rows: u64,
}

/// Copies a yard. `progress` is called after every job.
pub async fn copy_store(
    from: &CopyPlace,
    to: &CopyPlace,
    mut progress: impl FnMut(CopyProgress),
) -> Result<CopyProgress, CopyStoreError> {
    let failed = |place: &CopyPlace| {
        let place = place.to_string();
        move |error: OpenStoreError| CopyStoreError::Open { place, source: Box::new(error) }
    };
    let mut source = from.open_source().await.map_err(failed(from))?;
    let key = source.key_proof().await?;
    let mut target = to.open_target(&key, from).await.map_err(failed(to))?;
    let (source, target) = (source.as_mut(), target.as_mut());
    let numbers: HashSet<i64> = numbers(source).await?;
    if numbers_of_others(target, &numbers).await? {
        return Err(CopyStoreError::OtherYard { place: to.to_string() });
    }
    let mut copy = StoreCopy {
        source,
        target,
        state: CopyProgress { jobs: numbers.len() as u64, ..CopyProgress::default() },
    };
    copy.jobs(&mut progress).await?;
    copy.yard().await?;
    Ok(copy.state)
}

async fn numbers(side: &mut dyn CopySide) -> Result<HashSet<i64>, StoreError> {
    let (mut numbers, mut after) = (HashSet::new(), 0);
    loop {
        let page = side.jobs(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(numbers) };
        after = last.number;
        numbers.extend(page.iter().map(|row| row.number));
    }
}

async fn numbers_of_others(target: &mut dyn CopySide, known: &HashSet<i64>) -> Result<bool, StoreError> {
    Ok(!numbers(target).await?.is_subset(known))
}

/// A copy under way.
struct StoreCopy<'a> {
    source: &'a mut dyn CopySide,
    target: &'a mut dyn CopySide,
    state: CopyProgress,
}

impl StoreCopy<'_> {
    async fn jobs(&mut self, progress: &mut impl FnMut(CopyProgress)) -> Result<(), CopyStoreError> {
        let mut after = 0;
        loop {
            let page = self.source.jobs(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.number;
            for row in page {
                self.job(&row).await?;
                self.state.done += 1;
                progress(self.state);
            }
        }
    }

    async fn job(&mut self, row: &JobRow) -> Result<(), CopyStoreError> {
        // Every change of a job changes its row, so one with an equal row is complete.
        if self.target.job(row.number).await?.as_ref() == Some(row) {
            self.state.found += 1;
            return Ok(());
        }
        self.target.begin().await?;
        self.target.remove_job(row.number).await?;
        for table in &JOB_TABLES {
            self.rows(table, row.number).await?;
        }
        let request = self.source.request(row.number).await?;
        self.target.put_job(row, request.clone()).await?;
        self.target.commit().await?;
        self.compare(row, request.as_deref()).await
    }

    async fn rows(&mut self, table: &CopiedTable, job: i64) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.source.rows(table, job, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(table.key_of(last));
            self.state.rows += page.len() as u64;
            self.target.put_rows(table, &page).await?;
        }
    }

    /// Reads the job again from both sides.
    async fn compare(&mut self, row: &JobRow, request: Option<&[u8]>) -> Result<(), CopyStoreError> {
        let differs = |what| CopyStoreError::Differs { what, job: row.number };
        if self.target.job(row.number).await?.as_ref() != Some(row) {
            return Err(differs("jobs"));
        }
        if self.target.request(row.number).await?.as_deref() != request {
            return Err(differs("requests"));
        }
        for table in &JOB_TABLES {
            self.compare_rows(table, row.number).await?;
        }
        Ok(())
    }

    async fn compare_rows(&mut self, table: &CopiedTable, job: i64) -> Result<(), CopyStoreError> {
        let mut after = None;
        loop {
            let page = self.source.rows(table, job, after.as_deref(), PAGE).await?;
            if self.target.rows(table, job, after.as_deref(), PAGE).await? != page {
                return Err(CopyStoreError::Differs { what: table.name, job });
            }
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(table.key_of(last));
        }
    }

    /// The rows that belong to no job: sandboxes and the yard's audit.
    async fn yard(&mut self) -> Result<(), CopyStoreError> {
        self.target.begin().await?;
        self.target.clear_yard().await?;
        let mut sandboxes = self.source.sandboxes().await?;
        // The servers that held them are gone.
        sandboxes.iter_mut().for_each(|row| row.owner = None);
        for row in &sandboxes {
            self.target.put_sandbox(row).await?;
        }
        self.rows(&YARD_AUDIT, 0).await?;
        let end = self.source.yard_end().await?;
        if let Some(end) = &end {
            self.target.put_yard_end(end).await?;
        }
        self.target.finish().await?;
        self.target.commit().await?;
        self.compare_rows(&YARD_AUDIT, 0).await?;
        let differs = |what| CopyStoreError::Differs { what, job: 0 };
        if self.target.sandboxes().await? != sandboxes {
            return Err(differs("sandboxes"));
        }
        if self.target.yard_end().await? != end {
            return Err(differs("yard_audit_end"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
