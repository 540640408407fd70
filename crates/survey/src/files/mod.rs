//! Files of a tree in memory, and how they get there: a bounded walk that leaves out code of others, generated and
//! binary files, and counts them.

mod classify;
mod tree;
mod walk;

pub(crate) use classify::role;
pub use tree::{FileTree, TreeFile};
pub use walk::{WalkFailure, WalkLimits, read_folder};
