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

impl ProjectChanges {
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
    facts.uses.iter().filter(|one| one.from != one.to).map(|one| (path(one.from), path(one.to))).collect()
}
