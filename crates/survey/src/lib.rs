//! Surveys a tree of source files: reads a folder within bounds, scans each file, and connects what they mention.
//!
//! The flow: [`read_folder`] makes a [`FileTree`]; [`survey`] turns it into [`ProjectFacts`] by scanning files on a few
//! threads (`scan`), reading manifests (`manifests`), and resolving imports and mentions (`resolve`). Everything after
//! the reading is pure: the same tree has the same facts.
//!
//! No prose, no pictures: those are made from the facts by `sandyard-explain`.

mod entries;
mod files;
mod manifests;
mod resolve;
mod scan;
mod stores;
mod survey;

pub use files::{FileTree, TreeFile, WalkFailure, WalkLimits, read_folder};
pub use survey::{SurveyLimits, survey};

#[cfg(doc)]
use sandyard_explain::facts::ProjectFacts;
