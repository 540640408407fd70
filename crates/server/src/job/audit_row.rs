//! The state of a job's audit in its row, beside the records: the position of the chain, and the open folds.
//!
//! A flood of calls must neither fill the disk nor go unrecorded. Of each kind the first [`DETAILED_RECORDS`] have a record of
//! their own; those after it are counted and hashed into an open fold, which is part of the row and so as durable as a record,
//! and which becomes one record when it is full, old, or the job's end is near.

use std::collections::BTreeMap;

use sandyard_api::Timestamp;
use serde::{Deserialize, Serialize};

use crate::audit::{
    AuditActor, AuditChain, AuditEntry, AuditHead, AuditKind, AuditLine, Sha256Digest, SigningKey, digest,
    encode,
};

/// Records of one kind with all their facts: with 400 bytes each, some 2 MB.
const DETAILED_RECORDS: u64 = 4000;
/// Calls in the first fold of a kind; each later one may hold as many as all before it, so that their number stays small.
const MIN_FOLD_ENTRIES: u64 = 1000;
/// Longest time that a fold stays open, in milliseconds.
const MAX_FOLD_MS: i64 = 60_000;

/// The position of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditRow {
    pub(crate) records: u64,
    /// The hash of the last record.
    pub(crate) head: String,
    /// Of the head, by the server that wrote it.
    #[serde(default)]
    pub(crate) signature: String,
    /// The public key of that server.
    #[serde(default)]
    pub(crate) key: String,
    /// Entries of each kind so far.
    counts: BTreeMap<String, u64>,
    /// Folds that are open, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    open: BTreeMap<String, AuditFold>,
}

/// Entries of one kind that share a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AuditFold {
    actor: AuditActor,
    count: u64,
    first_ms: i64,
    last_ms: i64,
    /// Over the digest so far and the encoding of each entry's facts.
    digest: String,
}

/// Facts of the record that a fold becomes, for every kind.
#[derive(Serialize)]
struct FoldFacts {
    folded: u64,
    sha256: String,
    first_at: String,
    last_at: String,
}

/// The result of noting an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotedEntry {
    /// The entry is the record with this number.
    Record(u64),
    /// The entry was counted and hashed into the open fold of its kind; it has no record of its own.
    Folded,
}

/// The results of entries that were noted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotedEntries {
    pub(crate) noted: Vec<NotedEntry>,
    /// True if nothing is left to do for the job.
    pub(crate) is_over: bool,
}

impl AuditRow {
    /// Before the first record of the chain with this name: a job's id, or the yard's.
    pub(crate) fn begin(name: &str) -> Self {
        let chain = AuditChain::begin(name);
        Self {
            records: 0,
            head: chain.head.to_string(),
            signature: String::new(),
            key: String::new(),
            counts: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// Adds an entry. Appends the records that must be stored to `lines`.
    pub(crate) fn note(&mut self, entry: &AuditEntry, now_ms: i64, lines: &mut Vec<AuditLine>) -> NotedEntry {
        let (kind, facts) = (entry.kind(), entry.facts.to_json());
        let count = self.counts.entry(kind.as_str().to_owned()).or_default();
        // Counted before the decision and stored in the row: a restart must not begin a new series of detailed records.
        *count += 1;
        if *count <= DETAILED_RECORDS || !kind.may_be_many() {
            return NotedEntry::Record(self.append(entry.actor, kind.as_str(), facts, now_ms, lines));
        }
        let before = *count - 1 - DETAILED_RECORDS;
        self.fold(entry.actor, kind, &facts, now_ms);
        let is_due = self.open.get(kind.as_str()).is_some_and(|fold| {
            fold.count >= MIN_FOLD_ENTRIES.max(before) || now_ms.saturating_sub(fold.first_ms) >= MAX_FOLD_MS
        });
        if is_due {
            self.seal(kind.as_str(), now_ms, lines);
        }
        NotedEntry::Folded
    }

    /// Makes records of all open folds.
    pub(crate) fn seal_all(&mut self, now_ms: i64, lines: &mut Vec<AuditLine>) {
        let kinds: Vec<String> = self.open.keys().cloned().collect();
        for kind in kinds {
            self.seal(&kind, now_ms, lines);
        }
    }

    fn fold(&mut self, actor: AuditActor, kind: AuditKind, facts: &serde_json::Value, now_ms: i64) {
        let fold = self.open.entry(kind.as_str().to_owned()).or_insert_with(|| AuditFold {
            actor,
            count: 0,
            first_ms: now_ms,
            last_ms: now_ms,
            digest: String::new(),
        });
        fold.count += 1;
        fold.last_ms = now_ms;
        fold.digest = digest(format!("{}{}", fold.digest, encode(facts)).as_bytes());
    }

    fn seal(&mut self, kind: &str, now_ms: i64, lines: &mut Vec<AuditLine>) {
        let Some(fold) = self.open.remove(kind) else { return };
        let facts = FoldFacts {
            folded: fold.count,
            sha256: fold.digest,
            first_at: Timestamp::from_unix_ms(fold.first_ms).to_text(),
            last_at: Timestamp::from_unix_ms(fold.last_ms).to_text(),
        };
        let facts = serde_json::to_value(facts).unwrap_or_default();
        self.append(fold.actor, kind, facts, now_ms, lines);
    }

    fn append(
        &mut self,
        actor: AuditActor,
        kind: &str,
        facts: serde_json::Value,
        now_ms: i64,
        lines: &mut Vec<AuditLine>,
    ) -> u64 {
        // A damaged head must not restart the chain. The next record then refers to its hash, and verification finds the damage.
        let head = self.head.parse().unwrap_or_else(|()| Sha256Digest::of(self.head.as_bytes()));
        let mut chain = AuditChain { records: self.records, head };
        let line = chain.append(now_ms, actor, kind, facts);
        (self.records, self.head) = (chain.records, chain.head.to_string());
        lines.push(line);
        self.records
    }

    /// The head of the chain with this name, as it was signed.
    pub(crate) fn signed_head(&self, name: &str) -> AuditHead {
        AuditHead {
            job: name.to_owned(),
            records: self.records,
            head: self.head.clone(),
            signature: self.signature.clone(),
            key: self.key.clone(),
        }
    }

    /// Signs the head as it is now.
    pub(crate) fn sign(&mut self, name: &str, key: &SigningKey) {
        let Ok(head) = self.head.parse() else { return };
        self.signature = key.sign(name, self.records, &head);
        self.key = key.public().to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditFacts, EgressFacts, StateFacts};
    use crate::job::JobState;

    /// Entries that are counted and have no record yet.
    fn waiting(audit: &AuditRow) -> u64 {
        audit.open.values().map(|fold| fold.count).sum()
    }

    fn egress(number: u64) -> AuditEntry {
        let facts = AuditFacts::Egress(EgressFacts::allowed(format!("host{number}:443")));
        AuditEntry::new(AuditActor::Job, facts)
    }

    fn state() -> AuditEntry {
        let facts = StateFacts {
            state: JobState::Running,
            reason: None,
            driver: None,
            runtime: None,
            exit_code: None,
        };
        AuditEntry::new(AuditActor::Host, AuditFacts::State(facts))
    }

    #[test]
    fn a_flood_is_folded_and_every_entry_counted() {
        let job = crate::job::random_id().unwrap();
        let (mut audit, mut lines) = (AuditRow::begin(job.as_str()), Vec::new());
        for number in 0..100_000 {
            audit.note(&egress(number), 1_000, &mut lines);
        }
        assert_eq!(audit.note(&state(), 1_000, &mut lines), NotedEntry::Record(lines.len() as u64));
        audit.seal_all(2_000, &mut lines);
        assert!(lines.len() < DETAILED_RECORDS as usize + 20, "{} records", lines.len());
        let folded: u64 = lines
            .iter()
            .filter_map(|line| {
                serde_json::from_str::<serde_json::Value>(&line.text).ok()?["facts"]["folded"].as_u64()
            })
            .sum();
        assert_eq!((folded, waiting(&audit)), (100_000 - DETAILED_RECORDS, 0));
    }

    #[test]
    fn a_fold_closes_when_it_is_old() {
        let job = crate::job::random_id().unwrap();
        let (mut audit, mut lines) = (AuditRow::begin(job.as_str()), Vec::new());
        for number in 0..=DETAILED_RECORDS {
            audit.note(&egress(number), 0, &mut lines);
        }
        assert_eq!((lines.len() as u64, waiting(&audit)), (DETAILED_RECORDS, 1));
        assert_eq!(audit.note(&egress(0), MAX_FOLD_MS, &mut lines), NotedEntry::Folded);
        assert_eq!((lines.len() as u64, waiting(&audit)), (DETAILED_RECORDS + 1, 0));
    }
}
