//! The columns of a job, in one list for all databases.
//!
//! A new column of a job costs a field of `JobRow`, its value in `JobRow::new`, a line in [`job_columns`] and a migration of each
//! database. How a codec of the list reads and writes a column is up to the `codecs` of the database.

/// Hands every column to a macro, as `("column" codec field)`. Those under `once` are written with the job, the others also when it
/// changes, so they must stay small: those under `state` a few times in its life, those under `progress` with every commit. The
/// columns `number`, `id`, `kind`, `limits` and those of the lease are written out where they are needed.
macro_rules! job_columns {
    ($with:ident $($argument:tt)*) => {
        $with! { [$($argument)*]
            once:
            ("name" plain name)
            ("keep" plain keep)
            ("created_ms" plain created_ms)
            ("requested_isolation" plain requested_isolation)
            state:
            ("state" word state)
            ("sandbox" word sandbox)
            ("sandbox_id" maybe_word sandbox_id)
            ("reason" plain reason)
            ("driver" plain driver)
            ("runtime" plain runtime)
            ("level" maybe_word level)
            ("isolation_reason" plain isolation_reason)
            ("started_ms" plain started_ms)
            ("finished_ms" plain finished_ms)
            ("exit_code" plain exit_code)
            ("failure" maybe_json failure)
            ("usage" maybe_json usage)
            ("outcome" maybe_word outcome)
            ("artifact_sha256" artifact_sha256 artifact)
            ("artifact_bytes" artifact_bytes artifact)
            ("explanation" maybe_json explanation)
            ("incarnation" plain incarnation)
            ("attempts" plain attempts)
            ("begun" plain begun)
            ("epoch" plain epoch)
            ("cancel_requested" plain cancel_requested)
            ("delete_requested" plain delete_requested)
            ("open" plain open)
            progress:
            ("guest_sequence" plain guest_sequence)
            ("stdout_bytes" plain stdout.bytes)
            ("stdout_dropped" plain stdout.dropped)
            ("stdout_next_chunk" plain stdout.next_chunk)
            ("stdout_tail_chunk" plain stdout.tail_chunk)
            ("stderr_bytes" plain stderr.bytes)
            ("stderr_dropped" plain stderr.dropped)
            ("stderr_next_chunk" plain stderr.next_chunk)
            ("stderr_tail_chunk" plain stderr.tail_chunk)
            ("last_event" plain last_event)
            ("revision" plain revision)
            ("egress_bytes" plain egress_bytes)
            ("task" maybe_json task)
            ("recording_moments" plain recording.moments)
            ("recording_pictures" plain recording.pictures)
            ("recording_bytes" plain recording.bytes)
            ("journal_bytes" plain journal_bytes)
            ("texts" plain texts)
            ("audit" maybe_json audit)
            ("audit_bytes" plain audit_bytes)
        }
    };
}
pub(super) use job_columns;
