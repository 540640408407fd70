//! The loop that works on a task, inside the task's own sandbox: session → turn → step.
//!
//! It holds no key and knows no driver. Everything that it must not forget is in the journal on the host, reached through
//! keeper's socket (`journal`); models are asked there too (`model`); tools are keeper's (`tools`). It may be killed at any
//! moment: the next one reads the journal and goes on.

mod arguments;
mod conversation;
mod journal;
mod keeper;
mod model;
mod positions;
mod prompt;
mod session;
mod shape;
mod shown;
mod state;
mod step;
mod stuck;
mod tokens;
mod tools;
mod turn;
mod window;

pub use prompt::SYSTEM;
pub use session::{AgentEnd, run};
pub use tools::specs;
