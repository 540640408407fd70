//! Every promise of [`Store`], as tests that run on each implementation.
//!
//! A store joins by a [`StoreHarness`] and one call of [`store_conformance`]. Promises that concern one database only, such as the
//! use of an index, are tested beside it.

pub(crate) mod audits;
pub(crate) mod jobs;
pub(crate) mod leases;
pub(crate) mod sandboxes;
pub(crate) mod tasks;
pub(crate) mod texts;

use std::sync::Arc;

use parking_lot::Mutex;
use sandyard_sandbox::driver::SandboxId;

use super::memory::{MemoryStore, MemoryTables};
use super::{AuditSigner, InsertJob, Inserted, JobClaim, Store, StoredRequest};
use crate::audit::SigningKey;
use crate::job::{Change, JobId, JobRow, JobState, Purpose, SandboxRow, samples};

/// A lease that does not run out while a test runs.
const TTL_MS: u64 = 60_000;

/// Where a test finds a store.
pub(crate) trait StoreHarness: Sized {
    /// A place without a store; `None` if this machine can't have one, which the harness reports.
    fn fresh(key: Arc<SigningKey>) -> Option<Self>;

    /// Opens the store of this place; the one that was open before is dropped.
    fn open(&self) -> Arc<dyn Store>;

    /// Stores a sandbox as a pool would make it.
    fn put_sandbox(&self, row: &SandboxRow);
}

/// The tests of all promises for one harness.
macro_rules! store_conformance {
    ($harness:ty) => {
        $crate::store::conformance::store_conformance!(@ $harness;
            jobs: a_row_is_read_back_as_it_was_written, the_same_key_makes_one_job,
                a_full_queue_refuses_what_is_not_claimed, event_ids_have_no_gap_and_refused_changes_leave_nothing,
                output_is_found_by_chunk_and_by_offset, dropped_chunks_are_gone,
                lists_are_paged_newest_first_and_filtered, a_cancel_of_a_queued_job_ends_it,
                a_cancel_of_a_running_job_is_a_request, a_deleted_job_is_unknown_at_once_and_gone_at_the_end,
                a_watch_wakes_after_a_commit_of_its_job, ended_jobs_are_counted_and_sorted_by_their_end,
                request_files_go_with_the_end, a_revision_tells_a_changed_row,
                a_beginning_finds_the_ids_that_have_it, a_time_limit_is_only_raised_and_outlives_the_server;
            leases: a_write_of_an_earlier_owner_is_refused_and_changes_nothing,
                a_lease_that_ran_out_can_not_be_renewed, a_job_is_claimed_once,
                orphans_are_begun_jobs_without_an_owner, the_queue_is_in_order_of_arrival,
                a_requeued_job_is_free_again, leases_end_with_the_store;
            tasks: entries_come_where_they_are_expected_behind_words_and_once,
                an_answer_and_its_price_are_one_commit_and_survive,
                a_question_moves_the_job_and_an_answer_moves_it_back, words_are_heard_by_running_tasks_only;
            texts: texts_are_counted_named_by_their_content_and_outlive_the_store,
                texts_are_kept_for_jobs_of_every_kind_and_by_present_owners, texts_leave_the_journal_its_room;
            audits: an_audit_is_one_chain_whoever_writes, the_yards_audit_names_who_removed_a_job_that_is_gone, a_refused_change_leaves_no_record,
                notes_do_not_wake_and_are_folded;
            sandboxes: a_sandbox_is_committed_with_its_job_and_goes_once_stopped,
                another_sandbox_leaves_the_one_before_to_be_stopped, a_job_that_closes_leaves_its_sandbox,
                a_removed_job_leaves_its_sandbox, a_sandbox_changes_hands_with_its_job,
                a_parked_sandbox_has_no_job_and_stays, a_requeued_job_has_no_sandbox;
        );
    };
    (@ $harness:ty; $($file:ident: $($test:ident),*;)*) => { $( $(
        #[tokio::test]
        async fn $test() {
            let key = $crate::job::samples::signing_key();
            let Some(harness) = <$harness as $crate::store::conformance::StoreHarness>::fresh(key) else { return };
            $crate::store::conformance::$file::$test(&harness).await;
        }
    )* )* };
}
pub(crate) use store_conformance;

struct MemoryHarness {
    tables: Arc<Mutex<MemoryTables>>,
    signer: AuditSigner,
}

impl StoreHarness for MemoryHarness {
    fn fresh(key: Arc<SigningKey>) -> Option<Self> {
        Some(Self { tables: Arc::default(), signer: AuditSigner::new(key) })
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::open(Arc::clone(&self.tables), self.signer.clone()))
    }

    fn put_sandbox(&self, row: &SandboxRow) {
        let mut tables = self.tables.lock();
        tables.sandboxes.insert(row.id.clone(), row.clone());
    }
}

mod in_memory {
    super::store_conformance!(super::MemoryHarness);
}

pub(crate) fn new_job() -> InsertJob {
    InsertJob {
        row: samples::job_row(),
        request: StoredRequest { job: samples::new_job(), files: Vec::new() },
        key: None,
        entry: samples::entry(),
        queue: 100,
    }
}

/// The change that gives a job a sandbox, and its name.
fn new_sandbox(purpose: Purpose) -> (SandboxId, Change) {
    let sandbox = samples::sandbox();
    (sandbox.id.clone(), Change::NewSandbox { sandbox: Box::new(sandbox), purpose })
}

pub(crate) fn claim(owner: &str) -> JobClaim {
    let changes = vec![new_sandbox(Purpose::Run).1, to(JobState::Starting)];
    JobClaim { owner: owner.into(), ttl_ms: TTL_MS, changes }
}

async fn queued(store: &dyn Store) -> JobRow {
    inserted(store.insert(new_job(), None).await.unwrap())
}

/// A job that the owner `a` starts.
async fn claimed(store: &dyn Store) -> JobRow {
    inserted(store.insert(new_job(), Some(claim("a"))).await.unwrap())
}

/// A job that ended and has nothing left to do.
pub(crate) async fn over(store: &dyn Store) -> JobRow {
    let row = claimed(store).await;
    store.commit(&row.fence(), over_changes(&row)).await.unwrap()
}

/// The changes from the start of a job to its end.
pub(crate) fn over_changes(row: &JobRow) -> Vec<Change> {
    let stopped = Change::SandboxStopped(row.sandbox_id.clone().unwrap());
    let ended = Change::Ended { outcome: JobState::Succeeded, exit_code: Some(0), failure: None };
    let states = [JobState::Running, JobState::Finishing, JobState::Succeeded].map(to);
    [vec![ended], states.into(), vec![stopped, Change::Closed]].concat()
}

fn inserted(answer: Inserted) -> JobRow {
    match answer {
        Inserted::New(row) => *row,
        other => panic!("{other:?}"),
    }
}

async fn row_of(store: &dyn Store, id: &JobId) -> JobRow {
    store.any_job(id).await.unwrap().unwrap()
}

fn to(state: JobState) -> Change {
    Change::Move { to: state, reason: None }
}
