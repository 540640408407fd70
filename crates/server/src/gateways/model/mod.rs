//! The model gateway: a sandbox asks, the host adds the key, meters, and answers as the provider streams.

mod anthropic;
mod openai;
mod sse;

/// A provider's answer that can't be understood; says what was wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the provider sent {0}")]
pub(super) struct Malformed(pub(super) &'static str);
