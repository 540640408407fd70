//! Facts of the yard's own audit, which outlives every job.

use std::collections::BTreeMap;

use serde::Serialize;

use super::call_facts::CallerFacts;

/// The name of the yard's chain, in the place of a job's id. No id of a job is as short.
pub const YARD_CHAIN: &str = "yard";

/// An act on a job by somebody who is named even when the job is gone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct JobActFacts {
    pub(crate) job: String,
    /// The end of the job's own chain after this act: a copy of its audit can still be compared with it.
    pub(crate) audit: Option<ChainEndFacts>,
    #[serde(flatten)]
    pub(crate) caller: CallerFacts,
}

/// The end of a chain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ChainEndFacts {
    pub(crate) records: u64,
    pub(crate) head: String,
}

/// The rules that a server begins with. Values are those that people may read: no key and no password.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StartFacts {
    pub(crate) version: String,
    /// Ids of the keys that open it: the beginnings of their hashes.
    pub(crate) keys: Vec<String>,
    pub(crate) settings: BTreeMap<String, String>,
}
