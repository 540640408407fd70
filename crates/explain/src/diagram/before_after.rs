//! One picture of what changed: parts and uses that are new, gone or different.

use std::collections::{BTreeMap, BTreeSet};

use crate::changes::ProjectChanges;
use crate::diagram::dot::{ChangeLook, DrawnEdge, DrawnNode, DrawnPage, EdgeHeads, NodeLook};
use crate::diagram::pages::{edge, finish, part_node, plain_node};
use crate::diagram::select::select;
use crate::facts::ProjectFacts;
use crate::structure::ProjectStructure;

/// Box of all files that are gone.
const GONE: &str = "g0";

/// The page of all parts with the changes in it. `structure` is that of the new tree.
pub fn changes_dot(facts: &ProjectFacts, structure: &ProjectStructure, changes: &ProjectChanges) -> String {
    let mut page = DrawnPage { title: format!("{}: changes", facts.project_name()), ..DrawnPage::default() };
    let part_of = parts_by_path(facts, structure);
    let looks = part_looks(facts, structure, changes);
    for (at, part) in structure.parts.iter().enumerate() {
        let mut node = part_node(facts, part, &format!("p{at}"), None);
        node.change = looks[at];
        page.nodes.push(node);
    }
    let (pairs, hidden) = select(&structure.uses, structure.parts.len());
    let fresh = fresh_pairs(facts, structure, &part_of, changes);
    for pair in &pairs {
        let mut drawn = edge(facts, pair, "p", "p");
        if fresh.contains(&(pair.from, pair.to)) {
            drawn.change = ChangeLook::Added;
        }
        page.edges.push(drawn);
    }
    for (from, to) in gone_pairs(structure, &part_of, changes) {
        page.edges.push(gone_edge(&from, &to));
    }
    if !changes.removed_files.is_empty() {
        let title = format!(
            "{} removed {}",
            changes.removed_files.len(),
            if changes.removed_files.len() == 1 { "file" } else { "files" }
        );
        let lines = changes.removed_files.iter().take(3).cloned().collect();
        page.nodes.push(DrawnNode {
            lines,
            change: ChangeLook::Removed,
            ..plain_node(GONE, NodeLook::Outside, &title)
        });
    }
    finish(facts, &mut page, hidden);
    page.legend.push("Green: added. Red and dashed: removed. Yellow: changed.".to_owned());
    page.to_dot()
}

fn parts_by_path<'facts>(
    facts: &'facts ProjectFacts,
    structure: &ProjectStructure,
) -> BTreeMap<&'facts str, usize> {
    let part_of = structure.part_of_files(facts.files.len());
    facts.files.iter().zip(part_of).filter_map(|(file, part)| Some((file.path.as_str(), part?))).collect()
}

fn part_looks(
    facts: &ProjectFacts,
    structure: &ProjectStructure,
    changes: &ProjectChanges,
) -> Vec<ChangeLook> {
    let added: BTreeSet<&str> = changes.added_files.iter().map(String::as_str).collect();
    let changed: BTreeSet<&str> = changes.changed_files.iter().map(String::as_str).collect();
    let look = |files: &[usize]| {
        let is_new = |file: &usize| added.contains(facts.files[*file].path.as_str());
        let differs = |file: &usize| is_new(file) || changed.contains(facts.files[*file].path.as_str());
        match (files.iter().all(is_new), files.iter().any(differs)) {
            (true, _) => ChangeLook::Added,
            (_, true) => ChangeLook::Changed,
            _ => ChangeLook::Same,
        }
    };
    structure.parts.iter().map(|part| look(&part.files)).collect()
}

/// Pairs of parts between which every use is new.
fn fresh_pairs(
    facts: &ProjectFacts,
    structure: &ProjectStructure,
    part_of: &BTreeMap<&str, usize>,
    changes: &ProjectChanges,
) -> BTreeSet<(usize, usize)> {
    let added: BTreeSet<(&str, &str)> =
        changes.added_uses.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    let mut fresh: BTreeSet<(usize, usize)> = structure.uses.iter().map(|one| (one.from, one.to)).collect();
    for one in facts.dependencies() {
        let (from, to) = (facts.files[one.from].path.as_str(), facts.files[one.to].path.as_str());
        if let (Some(low), Some(high), false) =
            (part_of.get(from), part_of.get(to), added.contains(&(from, to)))
        {
            fresh.remove(&(*low, *high));
        }
    }
    fresh
}

/// Boxes between which no use is left.
fn gone_pairs(
    structure: &ProjectStructure,
    part_of: &BTreeMap<&str, usize>,
    changes: &ProjectChanges,
) -> BTreeSet<(String, String)> {
    let id = |path: &str| part_of.get(path).map_or_else(|| GONE.to_owned(), |part| format!("p{part}"));
    let present: BTreeSet<(String, String)> =
        structure.uses.iter().map(|one| (format!("p{}", one.from), format!("p{}", one.to))).collect();
    let gone = changes.removed_uses.iter().map(|(from, to)| (id(from), id(to)));
    gone.filter(|pair| pair.0 != pair.1 && !present.contains(pair)).collect()
}

fn gone_edge(from: &str, to: &str) -> DrawnEdge {
    DrawnEdge {
        from: from.to_owned(),
        to: to.to_owned(),
        heads: EdgeHeads::One,
        change: ChangeLook::Removed,
        width: 1.2,
        link: None,
        tooltip: "this use is gone".to_owned(),
    }
}
