//! Verifies an audit: are its records the signed ones, and if not, which record differs?
//!
//! The verifier hashes each record again and compares the result with the record's own `hash`, its `number` and the record
//! before; then it compares the end with the signed head. The next record exposes an altered record whose hash was adjusted
//! too. The signature exposes a chain whose hashes were all recomputed.

use serde::Deserialize;
use serde_json::Value;

use super::canonical::encode;
use super::digest::Sha256Digest;
use super::facts::ExportFacts;
use super::key::PublicKey;
use super::record::AuditHead;

/// The members of a record. A record with any other member is rejected: it could pass for part of the signed content.
const MEMBERS: [&str; 7] = ["actor", "at", "facts", "hash", "kind", "number", "previous"];
/// Faults that a verdict lists; most later faults follow from the first.
const MAX_FAULTS: usize = 20;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditVerdict {
    /// The job of the audit.
    pub job: String,
    /// Number of records in the audit.
    pub records: u64,
    /// The head that the audit carries.
    pub head: AuditHead,
    /// Differences from the signed audit; empty for an intact one.
    pub faults: Vec<AuditFault>,
    /// Facts of the last export, by which `verify_zip` checks the files.
    pub(super) export: Option<ExportFacts>,
    /// True if the job ended and never ran: there was nothing to export.
    pub(super) never_ran: bool,
}

/// The audit can't be verified at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The last line is not a head.
    #[error("the last line is not a signed head: the file was cut off, or is not an audit")]
    NoHead,
    /// The head carries no valid public key.
    #[error("the audit's head carries no valid public key")]
    BadKey,
}

/// A difference from the signed audit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditFault {
    /// A line is not a record.
    #[error("line {line} is not a record")]
    NotARecord {
        /// Number of the line, from 1.
        line: u64,
    },
    /// The content of a record differs from the hashed content.
    #[error("record {0} was altered")]
    Altered(u64),
    /// Records in the middle are missing.
    #[error("{}", removed(*.first, *.last))]
    Removed {
        /// Number of the first missing record.
        first: u64,
        /// Number of the last missing record.
        last: u64,
    },
    /// A record stands in another record's place.
    #[error("record {number} is out of order: it stands after record {after}")]
    Reordered {
        /// Number of the record.
        number: u64,
        /// Number of the record before it in the file.
        after: u64,
    },
    /// A record number occurs twice.
    #[error("record {0} is there twice")]
    Twice(u64),
    /// A record belongs to another chain.
    #[error("record {0} does not continue this chain")]
    Foreign(u64),
    /// The last records are missing.
    #[error("the end was cut off: {}", removed(*.first, *.last))]
    CutOff {
        /// Number of the first record behind the cut.
        first: u64,
        /// Number of the last record that the head promises.
        last: u64,
    },
    /// Records follow the signed end.
    #[error("record {0} was added after the signed end")]
    Added(u64),
    /// The records are consistent with each other, but not with the signed hash.
    #[error("the records were rewritten: the last hash differs from the signed one")]
    Rewritten,
    /// The signature is not valid for the key.
    #[error("the head is not signed by the key {0}")]
    Signature(String),
    /// The head carries another key than the expected one.
    #[error("the audit names the key {named}, not the expected {expected}")]
    OtherKey {
        /// The key in the head.
        named: String,
        /// The key that the caller expects.
        expected: String,
    },
}

fn removed(first: u64, last: u64) -> String {
    if first == last {
        format!("record {first} is missing")
    } else {
        format!("records {first} to {last} are missing")
    }
}

/// Verifies an audit as text: one line for each record, then the head. Without an expected key, the key in the head is
/// trusted; the result then only shows that the audit is consistent.
pub fn verify_lines(text: &str, expected: Option<PublicKey>) -> Result<AuditVerdict, VerifyError> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let head = lines.pop().and_then(read_head).ok_or(VerifyError::NoHead)?;
    let named: PublicKey = head.key.parse().map_err(|_| VerifyError::BadKey)?;
    let mut walk = ChainWalk::new(&head.job);
    for (place, line) in lines.iter().enumerate() {
        walk.take(place as u64 + 1, line);
    }
    walk.end(&head);
    if let Some(expected) = expected.filter(|expected| *expected != named) {
        walk.fault(AuditFault::OtherKey { named: named.to_string(), expected: expected.to_string() });
    }
    // The expected key decides, even if the head names another: a forger can put any key into the head.
    let key = expected.unwrap_or(named);
    if !key.accepts(&head) {
        walk.fault(AuditFault::Signature(key.to_string()));
    }
    let mut faults = walk.faults;
    faults.truncate(MAX_FAULTS);
    Ok(AuditVerdict {
        job: head.job.clone(),
        records: lines.len() as u64,
        head,
        faults,
        export: walk.export,
        never_ran: walk.ended && !walk.ran,
    })
}

fn read_head(line: &str) -> Option<AuditHead> {
    let mut value: Value = serde_json::from_str(line).ok()?;
    serde_json::from_value(value.get_mut("head")?.take()).ok()
}

/// The members of a record that link it into the chain.
struct HashedRecord {
    number: u64,
    /// The hash that the record states about itself.
    stated: Sha256Digest,
    /// The hash of the content.
    hash: Sha256Digest,
    previous: Sha256Digest,
}

/// The state of a walk through the records in file order.
struct ChainWalk {
    /// Number and stated hash of the last record that was in order.
    last: u64,
    last_hash: Sha256Digest,
    /// Numbers skipped so far. A record whose number is found here later was moved.
    missing: Vec<u64>,
    faults: Vec<AuditFault>,
    export: Option<ExportFacts>,
    /// True if a record says that the job ran, or that it ended.
    ran: bool,
    ended: bool,
}

impl ChainWalk {
    fn new(job: &str) -> Self {
        let last_hash = Sha256Digest::root(job);
        Self {
            last: 0,
            last_hash,
            missing: Vec::new(),
            faults: Vec::new(),
            export: None,
            ran: false,
            ended: false,
        }
    }

    fn fault(&mut self, fault: AuditFault) {
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn take(&mut self, line: u64, text: &str) {
        let Some((read, value)) = read_record(text) else {
            self.fault(AuditFault::NotARecord { line });
            return;
        };
        if read.stated != read.hash {
            self.fault(AuditFault::Altered(read.number));
        }
        if read.number <= self.last {
            self.out_of_order(read.number);
            return;
        }
        let in_order = read.number == self.last + 1;
        if !in_order {
            // Bounded, because a forged number can be huge.
            self.missing.extend((self.last + 1..read.number).take(100_000));
        } else if read.previous != self.last_hash {
            // This record is intact and continues another hash, so the record before it was replaced.
            let culprit = if read.stated == read.hash && self.last > 0 {
                AuditFault::Altered(self.last)
            } else {
                AuditFault::Foreign(read.number)
            };
            self.fault(culprit);
        }
        if value["kind"] == "export" {
            self.export = value.get("facts").and_then(|facts| ExportFacts::deserialize(facts).ok());
        }
        if value["kind"] == "state" {
            match value["facts"]["state"].as_str() {
                Some("queued" | "starting") => {}
                Some("failed" | "cancelled") => self.ended = true,
                _ => self.ran = true,
            }
        }
        (self.last, self.last_hash) = (read.number, read.stated);
    }

    fn out_of_order(&mut self, number: u64) {
        match self.missing.iter().position(|missing| *missing == number) {
            Some(place) => {
                self.missing.swap_remove(place);
                self.fault(AuditFault::Reordered { number, after: self.last });
            }
            None => self.fault(AuditFault::Twice(number)),
        }
    }

    fn end(&mut self, head: &AuditHead) {
        self.missing.sort_unstable();
        let runs = self.missing.chunk_by(|one, next| one + 1 == *next);
        let removed: Vec<AuditFault> = runs
            .filter_map(|run| Some(AuditFault::Removed { first: *run.first()?, last: *run.last()? }))
            .collect();
        self.faults.extend(removed);
        if self.last < head.records {
            self.fault(AuditFault::CutOff { first: self.last + 1, last: head.records });
        } else if self.last > head.records {
            self.fault(AuditFault::Added(head.records + 1));
        } else if self.last_hash.to_string() != head.head && self.faults.is_empty() {
            self.fault(AuditFault::Rewritten);
        }
    }
}

fn read_record(text: &str) -> Option<(HashedRecord, Value)> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let members = value.as_object_mut()?;
    // Exactly these members: an additional one would be hashed too, but a reader could take it for something else.
    if members.len() != MEMBERS.len() || !MEMBERS.iter().all(|name| members.contains_key(*name)) {
        return None;
    }
    let stated = members.remove("hash")?.as_str()?.parse().ok()?;
    let previous = members.get("previous")?.as_str()?.parse().ok()?;
    let number = members.get("number")?.as_u64()?;
    let hash = Sha256Digest::of(encode(&value).as_bytes());
    Some((HashedRecord { number, stated, hash, previous }, value))
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
