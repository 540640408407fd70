//! Which file is which module of which crate of Rust. `rust` fills it.

use std::collections::BTreeMap;

/// Where a file stands: its crate (named by the root file) and the names of its module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModulePlace {
    pub(super) root: usize,
    pub(super) path: Vec<String>,
}

/// All modules of all crates of a tree.
#[derive(Debug, Default)]
pub(crate) struct ModuleTree {
    pub(super) places: BTreeMap<usize, ModulePlace>,
    /// Files by root and module path.
    pub(super) modules: BTreeMap<(usize, Vec<String>), usize>,
    /// Root of the library of each package, by the name that `use` takes.
    pub(super) libraries: BTreeMap<String, usize>,
}
