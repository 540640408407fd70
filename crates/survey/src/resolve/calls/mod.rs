//! Which functions the calls of Python run.
//!
//! The code of all files is interpreted with sets of possible values in place of values: functions, classes, instances,
//! modules, containers. Within a body the order of statements counts ([`LocalFrames`](frames::LocalFrames)); between bodies
//! it does not ([`CellStore`](cells::CellStore)). Bodies are interpreted again until nothing is added, or a budget is spent.
//!
//! A call is reported if few functions can be meant, and each is one that some way through the program hands over. Values
//! that come from outside of the tree are not known and add nothing.

mod analysis;
mod attributes;
mod cells;
mod containers;
mod expressions;
mod frames;
mod hierarchy;
mod invoke;
mod report;
mod statements;
mod tree_code;
mod value;

pub(super) use report::{KnownCalls, known_calls};
