//! Providers of models: turns a call into an answer, over HTTP or from a recording. Knows nothing of jobs and budgets.
//!
//! `models` holds the models that the operator named (`specs`), with price and abilities (`table`). `client` sends a call and
//! repeats it while that may help (`http`, `failures`). `wire` translates to and from the provider's format without I/O
//! (`openai`, `anthropic`, `sse`). `answer_sender` passes the answer on, bounded and without the key (`secret`). `replay` plays
//! what `recorder` wrote, in the format of `recording`.

mod answer_sender;
mod anthropic;
mod client;
mod failures;
mod http;
mod models;
mod openai;
mod recorder;
mod recording;
mod replay;
mod secret;
mod specs;
mod sse;
mod table;
mod tool_arguments;
mod wire;

pub use http::ProviderTimeouts;
pub use models::{ModelConfig, ModelsError};
pub use recording::recording_of;
pub use secret::{ApiKey, BadKey};
pub use specs::{BadModelSpec, ModelSpec, PROVIDERS, Provider};

pub(crate) use client::ModelPause;
pub(super) use client::{AnswerEnd, AskFailure};
pub(crate) use models::{Model, Models, NoModel};
pub(crate) use recorder::AnswerRecorder;
pub(super) use recording::gather;
#[cfg(test)]
pub(super) use table::ModelTable;
pub(crate) use table::{Money, Price};
