//! What a handler reads of a request: the job and caller that the gate admitted, the query, conditions, the body.

pub(in crate::http) mod body;
pub(in crate::http) mod conditions;
pub(in crate::http) mod extract;
pub(in crate::http) mod query;
