//! Explains a project: from facts to its parts, pictures of them, and a page for somebody who never saw it.
//!
//! The flow: [`facts::ProjectFacts`] (found by `sandyard-survey`) → [`structure::structure`] → [`diagram`] and [`text`]
//! → [`Explanation`]. [`page`] makes HTML of it, and [`claims`] checks what a model says against the facts.
//!
//! Everything here is pure and deterministic: no I/O, no clock, no parser of source code. The same facts give the
//! same bytes. Nothing is drawn or said that no fact supports.

pub mod changes;
pub mod claims;
pub mod diagram;
mod explanation;
pub mod facts;
mod graph;
pub mod ignore;
pub mod narration;
pub mod page;
pub mod structure;
pub mod text;

pub use explanation::{
    EXPLANATION_VERSION, ExplainedFacts, Explanation, ExplanationEdge, ExplanationEvidence, ExplanationPart,
    ExplanationSummary, explain, explain_since,
};
pub use facts::JobNotes;
