//! The loop that works on a task, inside the task's own sandbox: session → turn → step.
//!
//! The loop holds no key and knows no driver. Everything that it must not forget is in the journal on the host, which it reaches
//! through keeper's socket (`journal`). The host also answers model calls (`model`), and keeper carries out tool calls (`tools`). The
//! loop may be killed at any moment: the next one reads the journal and continues.

mod arguments;
mod conversation;
mod digest;
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
