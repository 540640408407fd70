//! A directed graph of names and its cycles.

use std::collections::{BTreeMap, BTreeSet};

/// Edges from importing to imported names.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Adds an edge; an edge to itself is no cycle and ignored.
    pub(crate) fn add(&mut self, from: &str, to: &str) {
        if from != to {
            self.edges.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
    }

    /// Returns one shortest cycle for each group of names that reach each other, its first name repeated at the end.
    pub(crate) fn cycles(&self) -> Vec<Vec<String>> {
        let mut covered = BTreeSet::new();
        let mut cycles = Vec::new();
        for start in self.edges.keys() {
            if covered.contains(start) {
                continue;
            }
            let Some(cycle) = self.shortest_cycle(start) else { continue };
            let reached = self.reached_from(start);
            // Whatever also reaches the start is in the same group: one cycle is shown for all of it.
            covered.extend(reached.into_iter().filter(|name| self.reached_from(name).contains(start)));
            cycles.push(cycle);
        }
        cycles
    }

    fn shortest_cycle(&self, start: &String) -> Option<Vec<String>> {
        let mut queue = std::collections::VecDeque::from([vec![start.clone()]]);
        let mut seen = BTreeSet::new();
        while let Some(path) = queue.pop_front() {
            let Some(next) = path.last().and_then(|last| self.edges.get(last)) else { continue };
            for name in next {
                let mut longer = path.clone();
                longer.push(name.clone());
                if name == start {
                    return Some(longer);
                }
                if seen.insert(name.clone()) {
                    queue.push_back(longer);
                }
            }
        }
        None
    }

    fn reached_from(&self, start: &String) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![start];
        while let Some(name) = waiting.pop() {
            for next in self.edges.get(name).into_iter().flatten() {
                if reached.insert(next.clone()) {
                    waiting.push(next);
                }
            }
        }
        reached
    }
}
