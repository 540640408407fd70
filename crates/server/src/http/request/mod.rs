//! The parts of a request that handlers read: the job and caller that the gate admitted, the query, conditions, the body.

pub(in crate::http) mod body;
pub(in crate::http) mod conditions;
pub(in crate::http) mod extract;
pub(in crate::http) mod idempotency;
pub(in crate::http) mod idle;
pub(in crate::http) mod query;
pub(in crate::http) mod room;
