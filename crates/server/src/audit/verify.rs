//! Checks an audit: whether its records are those that were signed, and if not, which one is not.
//!
//! Each record is hashed anew and held against its own `hash`, its `number` and the record before; then the end against the
//! signed head. Whoever altered a record and its own hash is found by the record after it; whoever made all hashes after it
//! anew, by the signature.

use serde_json::Value;

use super::canonical::encode;
use super::key::PublicKey;
use super::record::{Digest, Head};

/// Members of a record beside its facts, so that nothing can be added that looks as if it were part of it.
const MEMBERS: [&str; 7] = ["actor", "at", "facts", "hash", "kind", "number", "previous"];
/// Faults that are told; after the first the others often follow from it.
const FAULTS: usize = 20;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The job.
    pub job: String,
    /// Records that were read.
    pub records: u64,
    /// The signed end, as the audit says it.
    pub head: Head,
    /// What is wrong; nothing if it is as it was signed.
    pub faults: Vec<Fault>,
    /// The last record of an export, for what else is to be checked.
    pub(super) export: Option<Value>,
}

/// An audit that can't be checked at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It has no signed head.
    #[error("the audit has no signed head in its last line: it was cut off, or is none")]
    NoHead,
    /// The head names a key that is none.
    #[error("the audit's head names no usable key")]
    BadKey,
}

/// Something that is not as it was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A line that is no record.
    #[error("line {line} is not a record")]
    NotARecord {
        /// Counted from 1.
        line: u64,
    },
    /// Its content is not what was hashed.
    #[error("record {0} was altered")]
    Altered(u64),
    /// It is not there.
    #[error("{}", removed(*.first, *.last))]
    Removed {
        /// From this number.
        first: u64,
        /// To this one.
        last: u64,
    },
    /// It stands where another belongs.
    #[error("record {number} is out of order: it stands after record {after}")]
    Reordered {
        /// Which.
        number: u64,
        /// Where.
        after: u64,
    },
    /// It is there twice.
    #[error("record {0} is there twice")]
    Twice(u64),
    /// It belongs to another chain.
    #[error("record {0} does not continue this chain")]
    Foreign(u64),
    /// The end is missing.
    #[error("the end was cut off: {}", removed(*.first, *.last))]
    CutOff {
        /// From this number.
        first: u64,
        /// To this one.
        last: u64,
    },
    /// There is more than was signed.
    #[error("record {0} was added after the signed end")]
    Added(u64),
    /// All hashes fit each other, but not the signed one.
    #[error("the records were rewritten: they end in another hash than the signed one")]
    Rewritten,
    /// The signature is not by the key.
    #[error("the head is not signed by the key {0}")]
    Signature(String),
    /// It was signed by another key than the one that was expected.
    #[error("the audit names the key {named}, not the expected {expected}")]
    OtherKey {
        /// In the audit.
        named: String,
        /// By the caller.
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

/// Checks an audit as text: records, then the head, a line each. Without an expected key the one that it names is believed.
pub fn verify_lines(text: &str, expected: Option<PublicKey>) -> Result<Verdict, VerifyError> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let head = lines.pop().and_then(read_head).ok_or(VerifyError::NoHead)?;
    let named: PublicKey = head.key.parse().map_err(|_| VerifyError::BadKey)?;
    let mut walk = Walk::new(&head.job);
    for (place, line) in lines.iter().enumerate() {
        walk.take(place as u64 + 1, line);
    }
    walk.end(&head);
    if let Some(expected) = expected.filter(|expected| *expected != named) {
        walk.fault(Fault::OtherKey { named: named.to_string(), expected: expected.to_string() });
    }
    let key = expected.unwrap_or(named);
    if !key.accepts(&head) {
        walk.fault(Fault::Signature(key.to_string()));
    }
    let mut faults = walk.faults;
    faults.truncate(FAULTS);
    Ok(Verdict { job: head.job.clone(), records: lines.len() as u64, head, faults, export: walk.export })
}

fn read_head(line: &str) -> Option<Head> {
    let mut value: Value = serde_json::from_str(line).ok()?;
    serde_json::from_value(value.get_mut("head")?.take()).ok()
}

/// A record as far as the chain is concerned.
struct Read {
    number: u64,
    /// What it says of itself.
    stated: Digest,
    /// What it really hashes to.
    hash: Digest,
    previous: Digest,
}

/// The way through the records.
struct Walk {
    /// Number and stated hash of the last record in order.
    last: u64,
    last_hash: Digest,
    /// Numbers that are missing so far; one that comes later was moved.
    missing: Vec<u64>,
    faults: Vec<Fault>,
    export: Option<Value>,
}

impl Walk {
    fn new(job: &str) -> Self {
        let last_hash = Digest::root(job);
        Self { last: 0, last_hash, missing: Vec::new(), faults: Vec::new(), export: None }
    }

    fn fault(&mut self, fault: Fault) {
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn take(&mut self, line: u64, text: &str) {
        let Some((read, value)) = read_record(text) else {
            self.fault(Fault::NotARecord { line });
            return;
        };
        if read.stated != read.hash {
            self.fault(Fault::Altered(read.number));
        }
        if read.number <= self.last {
            self.out_of_order(read.number);
            return;
        }
        let in_order = read.number == self.last + 1;
        if !in_order {
            // Bounded, because a number may be anything.
            self.missing.extend((self.last + 1..read.number).take(100_000));
        } else if read.previous != self.last_hash {
            // The record says what it continues, and is itself what was hashed: then the one before is another.
            let culprit = if read.stated == read.hash && self.last > 0 {
                Fault::Altered(self.last)
            } else {
                Fault::Foreign(read.number)
            };
            self.fault(culprit);
        }
        if value["kind"] == "export" {
            self.export = Some(value);
        }
        (self.last, self.last_hash) = (read.number, read.stated);
    }

    fn out_of_order(&mut self, number: u64) {
        match self.missing.iter().position(|missing| *missing == number) {
            Some(place) => {
                self.missing.swap_remove(place);
                self.fault(Fault::Reordered { number, after: self.last });
            }
            None => self.fault(Fault::Twice(number)),
        }
    }

    fn end(&mut self, head: &Head) {
        self.missing.sort_unstable();
        let runs = self.missing.chunk_by(|one, next| one + 1 == *next);
        let removed: Vec<Fault> = runs
            .filter_map(|run| Some(Fault::Removed { first: *run.first()?, last: *run.last()? }))
            .collect();
        self.faults.extend(removed);
        if self.last < head.records {
            self.fault(Fault::CutOff { first: self.last + 1, last: head.records });
        } else if self.last > head.records {
            self.fault(Fault::Added(head.records + 1));
        } else if self.last_hash.to_string() != head.head && self.faults.is_empty() {
            self.fault(Fault::Rewritten);
        }
    }
}

fn read_record(text: &str) -> Option<(Read, Value)> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let members = value.as_object_mut()?;
    if members.len() != MEMBERS.len() || !MEMBERS.iter().all(|name| members.contains_key(*name)) {
        return None;
    }
    let stated = members.remove("hash")?.as_str()?.parse().ok()?;
    let previous = members.get("previous")?.as_str()?.parse().ok()?;
    let number = members.get("number")?.as_u64()?;
    let hash = Digest::of(encode(&value).as_bytes());
    Some((Read { number, stated, hash, previous }, value))
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
