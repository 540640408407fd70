//! Pictures of a project: one page for all parts, one for each part.
//!
//! An arrow has one meaning: code at its tail uses code at its head. Only uses with evidence are drawn, weak ones
//! are left out and counted in the legend, and nothing is drawn that no line leads to.

mod before_after;
mod dot;
mod pages;
mod select;

pub use before_after::changes_dot;
pub(crate) use pages::{has_page, line_link};
pub use pages::{overview_dot, part_dot};
