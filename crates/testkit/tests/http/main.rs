//! The HTTP contract, through a real server on a port of its own: a whole yard on the fake driver behind it.
//!
//! Requests are written by hand, byte for byte, because a polite client tidies away what an attacker sends.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod access;
mod audit;
mod bad_requests;
mod client;
mod conformance;
mod finishing;
mod first_calls;
mod floods;
mod fronts;
mod jobs;
mod mcp;
mod mcp_client;
mod origins;
mod paths;
mod terminal;
mod tools;
mod upstream;
