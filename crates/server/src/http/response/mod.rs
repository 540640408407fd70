//! Answers of handlers: views, failures, bytes to download, streams of events.

pub(in crate::http) mod content;
pub(in crate::http) mod failure;
pub(in crate::http) mod head_and_tail;
pub(in crate::http) mod held_body;
pub(in crate::http) mod live;
pub(in crate::http) mod ranges;
pub(in crate::http) mod socket;
pub(in crate::http) mod unknown_route;
pub(in crate::http) mod views;
