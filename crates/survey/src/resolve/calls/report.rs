//! What is certain enough to be told.

use std::collections::{BTreeMap, BTreeSet};

use sandyard_explain::facts::{FileUse, UseKind};

use crate::resolve::bindings::FileLinks;
use crate::resolve::calls::analysis::analyse;
use crate::resolve::calls::tree_code::TreeCode;
use crate::resolve::calls::value::BodyId;
use crate::resolve::index::TreeIndex;

/// Functions that one call may run. With more it is a switchboard, and each line would tell little.
const MAX_TARGETS: usize = 4;

/// Calls of the files that were analysed.
#[derive(Debug, Default)]
pub(in crate::resolve) struct KnownCalls {
    pub(in crate::resolve) uses: Vec<FileUse>,
    /// Files whose calls are all decided here.
    pub(in crate::resolve) files: BTreeSet<usize>,
}

impl KnownCalls {
    /// True if a line calls a symbol.
    pub(in crate::resolve) fn has(&self, from: usize, to: usize, line: u32, symbol: &str) -> bool {
        let begin = self.uses.partition_point(|one| (one.from, one.to) < (from, to));
        let same = self.uses[begin..].iter().take_while(|one| (one.from, one.to) == (from, to));
        same.into_iter().any(|one| one.line == line && one.to_symbol.as_deref() == Some(symbol))
    }
}

/// Finds the calls of all Python files.
pub(in crate::resolve) fn known_calls(index: &TreeIndex<'_>, links: &[FileLinks]) -> KnownCalls {
    let tree = TreeCode::new(index, links);
    let found = analyse(&tree);
    let missed = tree.ids().zip(&found.reached).filter(|(_, reached)| !**reached);
    let missed: BTreeSet<usize> = missed.map(|(body, _)| tree.body(body).file).collect();
    let mut imports = ImportReach { links, reached: BTreeMap::new() };
    let mut uses = Vec::new();
    for (body, targets) in tree.ids().zip(found.targets) {
        for (place, bodies) in targets {
            if bodies.len() > MAX_TARGETS {
                continue;
            }
            let symbol = tree.spelling(place.name);
            uses.extend(bodies.iter().filter_map(|target| {
                let from = tree.body(body).file;
                let to = tree.body(*target).file;
                let (from_symbol, to_symbol) = (tree.symbol(body), target_symbol(&tree, *target)?);
                // A call of itself tells nothing about how parts work together.
                (from != to || from_symbol != Some(to_symbol)).then(|| FileUse {
                    from,
                    to,
                    kind: if imports.reaches(from, to) { UseKind::Call } else { UseKind::Indirect },
                    line: place.line,
                    symbol: symbol.to_owned(),
                    from_symbol: from_symbol.map(str::to_owned),
                    to_symbol: Some(to_symbol.to_owned()),
                })
            }));
        }
    }
    uses.sort();
    KnownCalls { uses, files: tree.files().filter(|file| !missed.contains(file)).collect() }
}

/// Name of what is called, if it has one.
fn target_symbol<'tree>(tree: &TreeCode<'tree>, target: BodyId) -> Option<&'tree str> {
    let is_named = tree.body(target).code.kind != crate::scan::code::BodyKind::Lambda;
    tree.symbol(target).filter(|_| is_named)
}

/// Files that a file imports, directly or by others.
struct ImportReach<'tree> {
    links: &'tree [FileLinks],
    reached: BTreeMap<usize, BTreeSet<usize>>,
}

impl ImportReach<'_> {
    fn reaches(&mut self, from: usize, to: usize) -> bool {
        if from == to || self.links[from].uses.iter().any(|link| link.to == to) {
            return true;
        }
        let links = self.links;
        let all = self.reached.entry(from).or_insert_with(|| {
            let mut all = BTreeSet::new();
            let mut next = vec![from];
            while let Some(file) = next.pop() {
                next.extend(links[file].uses.iter().map(|link| link.to).filter(|to| all.insert(*to)));
            }
            all
        });
        all.contains(&to)
    }
}
