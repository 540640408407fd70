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

    /// Returns one short cycle for each group of names that reach each other, its first name repeated at the end. `place` tells what a
    /// name belongs to: a group within one place is no cycle.
    pub(crate) fn cycles<'a>(&'a self, place: impl Fn(&'a str) -> &'a str) -> Vec<Vec<String>> {
        let mut covered = BTreeSet::new();
        let mut cycles = Vec::new();
        for (from, to) in self.edges.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
            if covered.contains(from) || place(from) == place(to) {
                continue;
            }
            let Some(back) = self.shortest_path(to, from) else { continue };
            let reached = self.reached_from(from);
            // Whatever also reaches the start is in the same group: one cycle is shown for all of it.
            covered.extend(reached.into_iter().filter(|name| self.reached_from(name).contains(from)));
            cycles.push([vec![from.clone()], back].concat());
        }
        cycles
    }

    /// The names from `start` to `end`, both included.
    fn shortest_path(&self, start: &String, end: &String) -> Option<Vec<String>> {
        let mut queue = std::collections::VecDeque::from([vec![start.clone()]]);
        let mut seen = BTreeSet::from([start]);
        while let Some(path) = queue.pop_front() {
            let last = path.last()?;
            if last == end {
                return Some(path);
            }
            for next in self.edges.get(last).into_iter().flatten() {
                if seen.insert(next) {
                    queue.push_back([path.as_slice(), std::slice::from_ref(next)].concat());
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
