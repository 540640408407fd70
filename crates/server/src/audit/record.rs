//! Records and the chain they form.
//!
//! A record is one JSON object: `number`, `at`, `actor`, `kind`, `facts`, `previous` and `hash`. `hash` is SHA-256 over the
//! canonical encoding of the others, `previous` the hash of the record before; the first one's is made from the job's id, so
//! that no record fits into another job's chain.

use std::fmt;
use std::str::FromStr;

use sandyard_api::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::canonical::encode;

/// Facts of one record as JSON: a list of a hundred paths. More is told by its hash.
const FACTS_BYTES: usize = 32 * 1024;

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// What stands before the first record of a job.
    pub fn root(job: &str) -> Self {
        Self::of(format!("sandyard audit 1\n{job}\n").as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = bytes_of(text).ok_or(())?;
        bytes.try_into().map(Self).map_err(|_| ())
    }
}

/// Bytes from lower-case hexadecimal digits.
pub(super) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let plain = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if !plain || !digits.len().is_multiple_of(2) {
        return None;
    }
    (0..digits.len() / 2).map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()).collect()
}

/// The hash of some bytes, as facts hold it.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// The server itself.
    Host,
    /// Whoever uses the API.
    Operator,
    /// The loop of a task, in its own words.
    Agent,
    /// A program in the sandbox.
    Job,
}

impl Actor {
    /// As records name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Operator => "operator",
            Self::Agent => "agent",
            Self::Job => "job",
        }
    }
}

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Schedule,
    State,
    Cancel,
    Delete,
    Reply,
    Ticket,
    Download,
    Open,
    File,
    Shell,
    Code,
    Kernel,
    Gui,
    Result,
    Egress,
    Model,
    Secret,
    Step,
    StepEnded,
    Asked,
    Finished,
    Workspace,
    Export,
    Artifact,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::State => "state",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Reply => "reply",
            Self::Ticket => "ticket",
            Self::Download => "download",
            Self::Open => "open",
            Self::File => "file",
            Self::Shell => "shell",
            Self::Code => "code",
            Self::Kernel => "kernel",
            Self::Gui => "gui",
            Self::Result => "result",
            Self::Egress => "egress",
            Self::Model => "model",
            Self::Secret => "secret",
            Self::Step => "step",
            Self::StepEnded => "step_ended",
            Self::Asked => "asked",
            Self::Finished => "finished",
            Self::Workspace => "workspace",
            Self::Export => "export",
            Self::Artifact => "artifact",
        }
    }

    /// Whether there may be any number of them, so that the later ones are folded into one record.
    pub(crate) fn may_be_many(self) -> bool {
        !matches!(
            self,
            Self::Schedule | Self::State | Self::Cancel | Self::Delete | Self::Export | Self::Artifact
        )
    }
}

/// Something to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) actor: Actor,
    pub(crate) kind: Kind,
    /// An object. Whole numbers only, or its encoding would differ between languages.
    pub(crate) facts: Value,
}

impl Entry {
    pub(crate) fn new(actor: Actor, kind: Kind, facts: Value) -> Self {
        Self { actor, kind, facts }
    }
}

/// Text that somebody else chose, at most so many bytes of it.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes)])
}

/// How far a job's chain is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) records: u64,
    pub(crate) head: Digest,
}

/// A record as it is stored and sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: u64,
    /// Canonical JSON, without a newline.
    pub(crate) text: String,
}

impl Chain {
    pub(crate) fn begin(job: &str) -> Self {
        Self { records: 0, head: Digest::root(job) }
    }

    /// Adds a record.
    pub(crate) fn append(&mut self, at_ms: i64, actor: Actor, kind: &str, facts: &Value) -> Line {
        self.records += 1;
        let encoded = encode(facts);
        let facts = if encoded.len() > FACTS_BYTES {
            json!({ "sha256": digest(encoded.as_bytes()), "bytes": encoded.len() })
        } else {
            facts.clone()
        };
        let mut record = json!({
            "number": self.records,
            "at": Timestamp::from_unix_ms(at_ms).to_text(),
            "actor": actor.as_str(),
            "kind": kind,
            "facts": facts,
            "previous": self.head.to_string(),
        });
        self.head = Digest::of(encode(&record).as_bytes());
        if let Some(members) = record.as_object_mut() {
            members.insert("hash".to_owned(), json!(self.head.to_string()));
        }
        Line { number: self.records, text: encode(&record) }
    }
}

/// The end of a chain, signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Whose chain it is.
    pub job: String,
    /// How many records it has.
    pub records: u64,
    /// The hash of the last.
    pub head: String,
    /// Ed25519 over [`Head::statement`], in hexadecimal.
    pub signature: String,
    /// The public key of the server that signed it, in hexadecimal.
    pub key: String,
}

impl Head {
    /// What is signed.
    pub fn statement(job: &str, records: u64, head: &str) -> String {
        format!("sandyard audit head 1\n{job}\n{records}\n{head}\n")
    }

    /// The last line of an audit.
    pub(crate) fn line(&self) -> String {
        json!({ "head": self }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_name_the_hash_of_the_one_before() {
        let mut chain = Chain::begin("job");
        let first = chain.append(0, Actor::Host, "state", &json!({ "b": 1, "a": 2 }));
        let head = chain.head.to_string();
        let second: Value =
            serde_json::from_str(&chain.append(1, Actor::Job, "egress", &json!({})).text).unwrap();
        assert_eq!(second["previous"], head.as_str());
        let first: Value = serde_json::from_str(&first.text).unwrap();
        assert_eq!(first["previous"], Digest::root("job").to_string());
        assert_eq!(first["hash"], head.as_str());
    }

    #[test]
    fn facts_are_bounded() {
        let mut chain = Chain::begin("job");
        let line = chain.append(0, Actor::Host, "file", &json!({ "path": "x".repeat(FACTS_BYTES) }));
        assert!(line.text.len() < 600 && line.text.contains("\"bytes\":32"), "{}", line.text);
        assert_eq!(cut("aéb", 2), "a…");
    }

    #[test]
    fn digests_read_back() {
        let digest = Digest::of(b"x");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for wrong in ["", "0", "zz", &"A".repeat(64), &"0".repeat(66)] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
