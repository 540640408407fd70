//! Who uses the API, as an audit names them: never by a key, but by what tells one key from another.

use crate::audit::CallerFacts;

/// Whoever sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    who: String,
    /// By which way, if it is not the API itself.
    over: Option<&'static str>,
}

impl Default for Caller {
    /// A program on this machine that needed no key.
    fn default() -> Self {
        Self { who: "local".to_owned(), over: None }
    }
}

impl Caller {
    /// The holder of the key with that id.
    pub(super) fn key(id: &str) -> Self {
        Self { who: format!("key:{id}"), over: None }
    }

    /// Whoever was given a ticket; its making is recorded too.
    pub(super) fn ticket() -> Self {
        Self { who: "ticket".to_owned(), over: None }
    }

    /// Whoever holds the cookie of a job's origin.
    pub(crate) fn pass() -> Self {
        Self { who: "pass".to_owned(), over: None }
    }

    /// The same, by the Model Context Protocol.
    #[must_use]
    pub(crate) fn over_mcp(self) -> Self {
        Self { over: Some("mcp"), ..self }
    }

    /// Returns the caller's part of the facts of a record.
    pub(crate) fn facts(&self) -> CallerFacts {
        CallerFacts { by: self.who.clone(), over: self.over }
    }
}
