//! The Leiden algorithm (Traag, Waltman, van Eck 2019): communities of a graph at a given resolution.
//!
//! The original chooses at random in its refinement. Here the best choice is taken, ties by index, so that the same
//! graph has the same communities.

use std::collections::{BTreeMap, VecDeque};

use crate::graph::weighted::WeightedGraph;

/// Rounds of moving, refining and grouping. Real graphs settle in fewer than ten.
const MAX_ROUNDS: usize = 50;
/// A gain below this is noise of the arithmetic.
const EPSILON: f64 = 1e-12;

/// Returns the community of each node, numbered from 0 by the lowest node in it. A higher resolution gives more communities.
pub(crate) fn communities(graph: &WeightedGraph, resolution: f64) -> Vec<usize> {
    let mut present = graph.clone();
    let mut membership: Vec<usize> = (0..graph.len()).collect();
    let mut start: Vec<usize> = (0..graph.len()).collect();
    for _ in 0..MAX_ROUNDS {
        let moved = move_nodes(&present, start, resolution);
        let count = moved.iter().max().map_or(0, |largest| largest + 1);
        if count == present.len() {
            return renumber(membership.iter().map(|node| moved[*node]));
        }
        let refined = refine(&present, &moved, resolution);
        let groups = refined.iter().max().map_or(0, |largest| largest + 1);
        // Each group of the refinement lies in one community, which is where the next round starts.
        let mut outer = vec![0; groups];
        for (node, group) in refined.iter().enumerate() {
            outer[*group] = moved[node];
        }
        membership.iter_mut().for_each(|node| *node = refined[*node]);
        if groups == present.len() {
            return renumber(membership.iter().map(|node| outer[*node]));
        }
        present = present.grouped(&refined, groups);
        start = outer;
    }
    renumber(membership.iter().map(|node| start[*node]))
}

/// Modularity of a partition at resolution 1: how much more weight lies inside communities than chance would put there.
pub(crate) fn modularity(graph: &WeightedGraph, community: &[usize]) -> f64 {
    if graph.total() <= 0.0 {
        return 0.0;
    }
    let groups = community.iter().max().map_or(0, |largest| largest + 1);
    let mut degrees = vec![0.0; groups];
    for node in 0..graph.len() {
        degrees[community[node]] += graph.degree(node);
    }
    let inner = graph.grouped(community, groups);
    let double = 2.0 * graph.total();
    let inside = |group: usize| {
        let others: f64 = inner.neighbours(group).iter().map(|(_, weight)| weight).sum();
        inner.degree(group) - others
    };
    (0..groups).map(|group| inside(group) / double - (degrees[group] / double).powi(2)).sum()
}

/// Moves single nodes to the neighbouring community with the highest gain, until none gains.
fn move_nodes(graph: &WeightedGraph, start: Vec<usize>, resolution: f64) -> Vec<usize> {
    let mut community = start;
    let double = 2.0 * graph.total();
    if double <= 0.0 {
        return renumber(community.into_iter());
    }
    let mut degrees = vec![0.0; graph.len().max(community.iter().max().map_or(0, |largest| largest + 1))];
    for node in 0..graph.len() {
        degrees[community[node]] += graph.degree(node);
    }
    let mut queue: VecDeque<usize> = (0..graph.len()).collect();
    let mut queued = vec![true; graph.len()];
    // Each move raises the quality, so this ends; the bound is for arithmetic that does not.
    let mut moves_left = graph.len().saturating_mul(100);
    while let Some(node) = queue.pop_front() {
        queued[node] = false;
        let own = community[node];
        let degree = graph.degree(node);
        degrees[own] -= degree;
        let best = best_community(graph, &community, &degrees, node, resolution / double);
        degrees[best] += degree;
        if best == own || moves_left == 0 {
            degrees[best] -= degree;
            degrees[own] += degree;
            continue;
        }
        moves_left -= 1;
        community[node] = best;
        for (other, _) in graph.neighbours(node) {
            if community[*other] != best && !queued[*other] {
                queued[*other] = true;
                queue.push_back(*other);
            }
        }
    }
    renumber(community.into_iter())
}

/// The community that a node without one joins with the highest gain; its own if no other is better.
fn best_community(
    graph: &WeightedGraph,
    community: &[usize],
    degrees: &[f64],
    node: usize,
    scaled_resolution: f64,
) -> usize {
    let degree = graph.degree(node);
    let mut weights: BTreeMap<usize, f64> = BTreeMap::from([(community[node], 0.0)]);
    for (other, weight) in graph.neighbours(node) {
        *weights.entry(community[*other]).or_default() += weight;
    }
    let gain = |group: usize, weight: f64| weight - scaled_resolution * degree * degrees[group];
    let own = community[node];
    let mut best = (own, gain(own, weights.get(&own).copied().unwrap_or_default()));
    for (group, weight) in weights {
        let value = gain(group, weight);
        if value > best.1 + EPSILON {
            best = (group, value);
        }
    }
    best.0
}

/// Splits each community into groups that hold together: single nodes join the best group of their community to which
/// they are connected.
fn refine(graph: &WeightedGraph, community: &[usize], resolution: f64) -> Vec<usize> {
    let double = 2.0 * graph.total();
    let mut group: Vec<usize> = (0..graph.len()).collect();
    let mut degrees: Vec<f64> = (0..graph.len()).map(|node| graph.degree(node)).collect();
    let mut sizes = vec![1_usize; graph.len()];
    for node in 0..graph.len() {
        // Only nodes that are still alone move, which keeps every group connected.
        if sizes[group[node]] != 1 || group[node] != node {
            continue;
        }
        let degree = graph.degree(node);
        let mut weights: BTreeMap<usize, f64> = BTreeMap::new();
        for (other, weight) in graph.neighbours(node) {
            if community[*other] == community[node] && *other != node {
                *weights.entry(group[*other]).or_default() += weight;
            }
        }
        let mut best = (node, 0.0);
        for (candidate, weight) in weights {
            let gain = weight - resolution / double * degree * degrees[candidate];
            if candidate != node && gain > best.1 + EPSILON {
                best = (candidate, gain);
            }
        }
        if best.0 != node {
            degrees[best.0] += degree;
            degrees[node] -= degree;
            sizes[best.0] += 1;
            sizes[node] -= 1;
            group[node] = best.0;
        }
    }
    renumber(group.into_iter())
}

/// Numbers groups from 0 in the order of their first member.
fn renumber(groups: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    let mut numbered = Vec::new();
    for group in groups {
        let next = numbers.len();
        numbered.push(*numbers.entry(group).or_insert(next));
    }
    numbered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two cliques of four with one edge between them.
    fn two_cliques() -> WeightedGraph {
        let mut edges = vec![(3, 4, 1.0)];
        for base in [0, 4] {
            for low in 0..4 {
                for high in low + 1..4 {
                    edges.push((base + low, base + high, 1.0));
                }
            }
        }
        WeightedGraph::new(8, edges)
    }

    #[test]
    fn cliques_are_found() {
        let graph = two_cliques();
        let found = communities(&graph, 1.0);
        assert_eq!(found, [0, 0, 0, 0, 1, 1, 1, 1]);
        assert!((modularity(&graph, &found) - 0.423).abs() < 0.001, "{}", modularity(&graph, &found));
        assert_eq!(modularity(&graph, &[0; 8]), 0.0);
    }

    #[test]
    fn a_graph_without_edges_has_one_community_per_node() {
        assert_eq!(communities(&WeightedGraph::new(3, []), 1.0), [0, 1, 2]);
        assert!(communities(&WeightedGraph::new(0, []), 1.0).is_empty());
    }

    proptest! {
        #[test]
        fn communities_are_connected_and_no_worse_than_one_for_all(
            edges in proptest::collection::vec((0_usize..30, 0_usize..30, 1_u32..5), 1..120),
            resolution in 1_u32..30,
        ) {
            let edges = edges.into_iter().filter(|(from, to, _)| from != to);
            let graph = WeightedGraph::new(30, edges.map(|(from, to, weight)| (from, to, f64::from(weight))));
            let found = communities(&graph, f64::from(resolution) / 10.0);
            prop_assert_eq!(&found, &communities(&graph, f64::from(resolution) / 10.0));
            if resolution == 10 {
                prop_assert!(modularity(&graph, &found) >= -1e-9);
            }
            for group in 0..=*found.iter().max().unwrap() {
                let members: Vec<usize> = (0..30).filter(|node| found[*node] == group).collect();
                let mut reached = vec![members[0]];
                let mut next = 0;
                while next < reached.len() {
                    for (other, _) in graph.neighbours(reached[next]) {
                        if found[*other] == group && !reached.contains(other) {
                            reached.push(*other);
                        }
                    }
                    next += 1;
                }
                prop_assert_eq!(reached.len(), members.len());
            }
        }
    }
}
