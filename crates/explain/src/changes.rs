//! What a job changed: two sets of facts compared by paths.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::facts::ProjectFacts;

/// Differences between two trees. All lists are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectChanges {
    /// Files that are new.
    pub added_files: Vec<String>,
    /// Files that are gone.
    pub removed_files: Vec<String>,
    /// Files with another content.
    pub changed_files: Vec<String>,
    /// Uses of one file by another that are new, as paths.
    pub added_uses: Vec<(String, String)>,
    /// Uses that are gone.
    pub removed_uses: Vec<(String, String)>,
}

/// Entries of one list that are kept. A job that changes more is told by its numbers.
const MAX_LISTED: usize = 500;

/// Changes with their picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedChanges {
    /// What is different. Each list is cut.
    pub changes: ProjectChanges,
    /// The picture of the parts with the changes in it, for `dot`.
    pub dot: String,
}

impl ProjectChanges {
    /// Cuts the lists.
    pub(crate) fn cut(mut self) -> Self {
        for files in [&mut self.added_files, &mut self.removed_files, &mut self.changed_files] {
            files.truncate(MAX_LISTED);
        }
        self.added_uses.truncate(MAX_LISTED);
        self.removed_uses.truncate(MAX_LISTED);
        self
    }

    /// True if nothing is different.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two trees.
pub fn compare(before: &ProjectFacts, after: &ProjectFacts) -> ProjectChanges {
    let (old, new) = (hashes(before), hashes(after));
    let added = new.keys().filter(|path| !old.contains_key(*path));
    let removed = old.keys().filter(|path| !new.contains_key(*path));
    let changed = new.iter().filter(|(path, hash)| old.get(*path).is_some_and(|was| was != *hash));
    let (old_uses, new_uses) = (pairs(before), pairs(after));
    let owned = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
    ProjectChanges {
        added_files: added.map(|path| (*path).to_owned()).collect(),
        removed_files: removed.map(|path| (*path).to_owned()).collect(),
        changed_files: changed.map(|(path, _)| (*path).to_owned()).collect(),
        added_uses: new_uses.difference(&old_uses).map(owned).collect(),
        removed_uses: old_uses.difference(&new_uses).map(owned).collect(),
    }
}

fn hashes(facts: &ProjectFacts) -> BTreeMap<&str, u64> {
    facts.files.iter().map(|file| (file.path.as_str(), file.hash)).collect()
}

fn pairs(facts: &ProjectFacts) -> BTreeSet<(&str, &str)> {
    let path = |file: usize| facts.files[file].path.as_str();
    facts.dependencies().map(|one| (path(one.from), path(one.to))).collect()
}
