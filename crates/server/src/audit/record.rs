//! Records and the chain they form.
//!
//! A record is one JSON object: `number`, `at`, `actor`, `kind`, `facts`, `previous` and `hash`. `hash` is SHA-256 over the
//! canonical encoding of the other members, `previous` the hash of the record before. The first record continues
//! [`Sha256Digest::root`].

use sandyard_api::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call_facts::CallerFacts;
use super::canonical::encode;
use super::digest::{Sha256Digest, digest};
use super::facts::AuditFacts;
use super::kind::AuditKind;
use super::yard_facts::{ChainEndFacts, JobActFacts};

/// Longest facts of one record as JSON: enough for a list of a hundred paths. Longer facts are replaced by their hash.
const MAX_FACTS_BYTES: usize = 32 * 1024;

/// The originator of a recorded act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditActor {
    /// The server itself, for example its lifecycle or retention.
    Host,
    /// A user of the API.
    Operator,
    /// The agent of a task, as it reports itself.
    Agent,
    /// A program in the sandbox.
    Job,
}

impl AuditActor {
    /// Returns the `actor` member of a record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Operator => "operator",
            Self::Agent => "agent",
            Self::Job => "job",
        }
    }
}

/// A record before it has a place in the chain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AuditEntry {
    pub(crate) actor: AuditActor,
    pub(crate) facts: AuditFacts,
}

impl AuditEntry {
    pub(crate) fn new(actor: AuditActor, facts: AuditFacts) -> Self {
        Self { actor, facts }
    }

    pub(crate) fn kind(&self) -> AuditKind {
        self.facts.kind()
    }

    /// The entry of the yard's audit that belongs to an entry of a job's: one for a cancellation or a deletion, none for
    /// anything else.
    pub(crate) fn for_yard(&self, job: &str, audit: Option<ChainEndFacts>) -> Option<Self> {
        let act = |caller: &CallerFacts| JobActFacts { job: job.to_owned(), audit, caller: caller.clone() };
        let facts = match &self.facts {
            AuditFacts::Cancel(caller) => AuditFacts::JobCancelled(act(caller)),
            AuditFacts::Delete(caller) => AuditFacts::JobDeleted(act(caller)),
            _ => return None,
        };
        Some(Self::new(self.actor, facts))
    }
}

/// Bounds text that somebody else chose: at most `max_bytes` of it, then an ellipsis.
pub(crate) fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max_bytes)])
}

/// The end of a job's chain, to which records are appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditChain {
    pub(crate) records: u64,
    pub(crate) head: Sha256Digest,
}

/// A record as it is stored and sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditLine {
    pub(crate) number: u64,
    /// Canonical JSON, without a newline.
    pub(crate) text: String,
}

impl AuditChain {
    pub(crate) fn begin(job: &str) -> Self {
        Self { records: 0, head: Sha256Digest::root(job) }
    }

    /// Appends a record with these facts, a JSON object.
    pub(crate) fn append(&mut self, at_ms: i64, actor: AuditActor, kind: &str, facts: Value) -> AuditLine {
        self.records += 1;
        let encoded = encode(&facts);
        let facts = if encoded.len() > MAX_FACTS_BYTES {
            json!({ "sha256": digest(encoded.as_bytes()), "bytes": encoded.len() })
        } else {
            facts
        };
        let mut record = json!({
            "number": self.records,
            "at": Timestamp::from_unix_ms(at_ms).to_text(),
            "actor": actor.as_str(),
            "kind": kind,
            "facts": facts,
            "previous": self.head.to_string(),
        });
        // The hash covers every member but itself, so it is added last.
        self.head = Sha256Digest::of(encode(&record).as_bytes());
        if let Some(members) = record.as_object_mut() {
            members.insert("hash".to_owned(), json!(self.head.to_string()));
        }
        AuditLine { number: self.records, text: encode(&record) }
    }
}

/// The signed end of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditHead {
    /// The job of the chain, or [`YARD_CHAIN`](super::YARD_CHAIN).
    pub job: String,
    /// Number of records in the chain.
    pub records: u64,
    /// Hash of the last record.
    pub head: String,
    /// Ed25519 over [`AuditHead::statement`], in hexadecimal.
    pub signature: String,
    /// Public key of the server that signed it, in hexadecimal.
    pub key: String,
}

impl AuditHead {
    /// Returns the signed text.
    pub fn statement(job: &str, records: u64, head: &str) -> String {
        format!("sandyard audit head 1\n{job}\n{records}\n{head}\n")
    }

    /// Returns the last line of an audit.
    pub(crate) fn line(&self) -> String {
        json!({ "head": self }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_name_the_hash_of_the_one_before() {
        let mut chain = AuditChain::begin("job");
        let first = chain.append(0, AuditActor::Host, "state", json!({ "b": 1, "a": 2 }));
        let head = chain.head.to_string();
        let second = chain.append(1, AuditActor::Job, "egress", json!({}));
        let second: Value = serde_json::from_str(&second.text).unwrap();
        assert_eq!(second["previous"], head.as_str());
        let first: Value = serde_json::from_str(&first.text).unwrap();
        assert_eq!(first["previous"], Sha256Digest::root("job").to_string());
        assert_eq!(first["hash"], head.as_str());
    }

    #[test]
    fn facts_are_bounded() {
        let mut chain = AuditChain::begin("job");
        let facts = json!({ "path": "x".repeat(MAX_FACTS_BYTES) });
        let line = chain.append(0, AuditActor::Host, "file", facts);
        assert!(line.text.len() < 600 && line.text.contains("\"bytes\":32"), "{}", line.text);
        assert_eq!(cut("aéb", 2), "a…");
    }
}
