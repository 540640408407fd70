//! Divides files into groups that belong together.
//!
//! The graph has the uses between files and, weaker, a node for each folder that holds its files together: a file
//! without any use still has neighbours. Communities are found at several resolutions, and the division with the highest
//! modularity among those of a readable size is taken.

use std::collections::BTreeMap;

use crate::facts::ProjectFacts;
use crate::graph::{WeightedGraph, communities, modularity};
use crate::structure::MAX_PARTS;
use crate::structure::weights::FileWeights;

/// Fewer parts than this say too little, if more are there to be found.
const FEW_PARTS: usize = 5;
/// Resolutions that are tried.
const LADDER: &[f64] = &[0.25, 0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.0, 2.6, 3.4, 4.5];
/// Weight of a file's tie to its folder. A use weighs at least 1.5.
const FOLDER_TIE: f64 = 0.8;
/// A group with less than this share of all files is joined with another.
const SMALLEST_SHARE: usize = 60;

/// Returns the groups, each sorted, in the order of their first file.
pub(super) fn divide(facts: &ProjectFacts, weights: &FileWeights, files: &[usize]) -> Vec<Vec<usize>> {
    if files.len() <= MAX_PARTS {
        return files.iter().map(|file| vec![*file]).collect();
    }
    let (graph, ties) = graph(facts, weights, files);
    let mut best: Option<(bool, f64, Vec<usize>)> = None;
    for resolution in LADDER {
        let found = communities(&graph, *resolution);
        let group = merge_small(&ties, &found[..files.len()]);
        let count = count(&group);
        let quality = modularity(&ties, &group);
        let readable = count >= FEW_PARTS;
        if best.as_ref().is_none_or(|(was_readable, was, _)| (readable, quality) > (*was_readable, *was)) {
            best = Some((readable, quality, group));
        }
    }
    let group = best.map(|(_, _, group)| group).unwrap_or_default();
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        groups.entry(group[at]).or_default().push(*file);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort();
    groups
}

fn count(group: &[usize]) -> usize {
    let mut numbers = group.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len()
}

/// The graph of files and folders, and the graph of the files alone, in which files of one folder are tied.
fn graph(facts: &ProjectFacts, weights: &FileWeights, files: &[usize]) -> (WeightedGraph, WeightedGraph) {
    let node: BTreeMap<usize, usize> = files.iter().enumerate().map(|(at, file)| (*file, at)).collect();
    let uses: Vec<(usize, usize, f64)> = weights
        .directed()
        .filter_map(|((from, to), weight)| Some((*node.get(from)?, *node.get(to)?, *weight)))
        .collect();
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ties = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let mut path = facts.files[*file].path.as_str();
        let mut below = at;
        let mut tie = FOLDER_TIE;
        while let Some((folder, _)) = path.rsplit_once('/') {
            let next = files.len() + folders.len();
            let known = folders.contains_key(folder);
            let number = *folders.entry(folder).or_insert(next);
            ties.push((below, number, tie));
            if known {
                break;
            }
            (path, below, tie) = (folder, number, tie * 0.6);
        }
    }
    let nodes = files.len() + folders.len();
    let whole = WeightedGraph::new(nodes, uses.iter().copied().chain(ties));
    (whole, WeightedGraph::new(files.len(), uses.into_iter().chain(chain(facts, files))))
}

/// Ties between neighbours of one folder, so that a file without uses has somewhere to go.
fn chain<'facts>(
    facts: &'facts ProjectFacts,
    files: &'facts [usize],
) -> impl Iterator<Item = (usize, usize, f64)> + 'facts {
    let folder = |file: usize| facts.files[file].path.rsplit_once('/').map_or("", |(folder, _)| folder);
    (1..files.len()).filter(move |at| folder(files[*at]) == folder(files[at - 1])).map(|at| (at - 1, at, 0.1))
}

/// Joins the smallest group with its strongest neighbour until no group is tiny and there are not too many.
fn merge_small(graph: &WeightedGraph, community: &[usize]) -> Vec<usize> {
    let mut group = community.to_vec();
    let smallest = (group.len() / SMALLEST_SHARE).max(1);
    loop {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        group.iter().for_each(|number| *sizes.entry(*number).or_default() += 1);
        let Some((small, size)) =
            sizes.iter().map(|(number, size)| (*number, *size)).min_by_key(|(number, size)| (*size, *number))
        else {
            return group;
        };
        if sizes.len() <= 1 || sizes.len() <= MAX_PARTS && size >= smallest {
            return group;
        }
        let mut ties: BTreeMap<usize, f64> = BTreeMap::new();
        for node in (0..group.len()).filter(|node| group[*node] == small) {
            for (other, weight) in graph.neighbours(node) {
                if group[*other] != small {
                    *ties.entry(group[*other]).or_default() += weight;
                }
            }
        }
        // By strength for its size, so that the largest group does not swallow everything.
        let strength = |number: &usize, weight: &f64| weight / (sizes[number] as f64).sqrt();
        let target = ties.iter().max_by(|left, right| {
            strength(left.0, left.1).total_cmp(&strength(right.0, right.1)).then(right.0.cmp(left.0))
        });
        let next_smallest = || {
            sizes
                .iter()
                .filter(|(number, _)| **number != small)
                .min_by_key(|(number, size)| (**size, **number))
                .map(|(number, _)| *number)
        };
        let Some(target) = target.map(|(number, _)| *number).or_else(next_smallest) else { return group };
        group.iter_mut().filter(|number| **number == small).for_each(|number| *number = target);
    }
}
