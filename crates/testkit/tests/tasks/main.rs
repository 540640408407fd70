//! Tasks on the host's side, with scripts in the place of their loops: journal, questions, models, budgets, and what a hostile
//! loop may try.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod hostile;
mod models;
mod questions;
mod story;
mod yard;
