//! Graphs without any knowledge of files: communities and ranks.
//!
//! All functions are deterministic: ties go to the lower index, and sums are made in a fixed order.

mod leiden;
mod pagerank;
mod weighted;

pub(crate) use leiden::{communities, modularity};
pub(crate) use pagerank::personalised_pagerank;
pub(crate) use weighted::WeightedGraph;
