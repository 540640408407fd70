//! An undirected graph with weights.

use std::collections::BTreeMap;

/// Neighbours with weights for each node, sorted by neighbour.
#[derive(Clone, Debug, Default)]
pub(crate) struct WeightedGraph {
    neighbours: Vec<Vec<(usize, f64)>>,
    /// Weight of each node's loop to itself, which a community gets when it becomes a node.
    loops: Vec<f64>,
    /// Sum of all weights, each edge once.
    total: f64,
}

impl WeightedGraph {
    /// Makes a graph of `nodes` nodes. Weights of repeated edges, in either direction, are added.
    pub(crate) fn new(nodes: usize, edges: impl IntoIterator<Item = (usize, usize, f64)>) -> Self {
        let mut sums: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (from, to, weight) in edges {
            *sums.entry((from.min(to), from.max(to))).or_default() += weight;
        }
        let mut graph = Self { neighbours: vec![Vec::new(); nodes], loops: vec![0.0; nodes], total: 0.0 };
        for ((low, high), weight) in sums {
            graph.total += weight;
            if low == high {
                graph.loops[low] += weight;
            } else {
                graph.neighbours[low].push((high, weight));
                graph.neighbours[high].push((low, weight));
            }
        }
        graph
    }

    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.neighbours.len()
    }

    /// Neighbours of a node, without itself.
    pub(crate) fn neighbours(&self, node: usize) -> &[(usize, f64)] {
        &self.neighbours[node]
    }

    /// Sum of the weights at a node; its loop counts twice.
    pub(crate) fn degree(&self, node: usize) -> f64 {
        self.neighbours[node].iter().map(|(_, weight)| weight).sum::<f64>() + 2.0 * self.loops[node]
    }

    /// Sum of all weights.
    pub(crate) fn total(&self) -> f64 {
        self.total
    }

    /// The graph whose nodes are the groups of this one.
    pub(crate) fn grouped(&self, group: &[usize], groups: usize) -> Self {
        let edges = (0..self.len()).flat_map(|node| {
            let own = (self.loops[node] > 0.0).then_some((group[node], group[node], self.loops[node]));
            let others = self.neighbours[node].iter().filter(move |(other, _)| *other > node);
            own.into_iter().chain(others.map(move |(other, weight)| (group[node], group[*other], *weight)))
        });
        Self::new(groups, edges)
    }
}
