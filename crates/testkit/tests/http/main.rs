//! The HTTP contract, through a real server on a port of its own: a whole yard on the fake driver behind it.
//!
//! Requests are written by hand, byte for byte, because a polite client tidies away what an attacker sends.

mod access;
mod bad_requests;
mod client;
mod conformance;
mod floods;
mod jobs;
mod paths;
mod terminal;
mod tools;
