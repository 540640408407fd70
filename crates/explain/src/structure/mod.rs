//! The parts of a project: communities of its dependency graph, named, ranked and connected.
//!
//! Files of the program are divided into at most eight parts (`divide`), each part again into at most eight groups.
//! Ranks say which files and symbols represent a part (`weights`), and folders or files give it a name (`names`).

mod divide;
mod names;
mod weights;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weights::{FileWeights, file_ranks};

use crate::facts::{FileRole, ProjectFacts, UseKind};

/// Parts of a project and groups of a part, at most. More do not fit on a page that people read.
pub const MAX_PARTS: usize = 8;
/// Pieces of evidence kept for one use between parts.
const MAX_EVIDENCE: usize = 12;
/// Symbols that represent a part.
const KEY_SYMBOLS: usize = 4;

/// A symbol that represents a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySymbol {
    /// The file that defines it.
    pub file: usize,
    /// Its name.
    pub name: String,
    /// Its line.
    pub line: u32,
}

/// A part of the project, or a group of files inside a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectPart {
    /// Name for people.
    pub name: String,
    /// Name for files and links: lower-case letters, digits and dashes. Unique among its peers.
    pub slug: String,
    /// Its files, highest rank first.
    pub files: Vec<usize>,
    /// Symbols that others use most.
    pub key_symbols: Vec<KeySymbol>,
    /// Groups inside, empty for a group.
    pub groups: Vec<ProjectPart>,
    /// Uses between the groups, by their index.
    pub group_uses: Vec<PartUse>,
}

/// A use of one part by another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartUse {
    /// The part that uses.
    pub from: usize,
    /// The part that is used.
    pub to: usize,
    /// Number of uses between their files.
    pub count: u32,
    /// Strength, which grows with the logarithm of the uses of each pair of files.
    pub weight: f64,
    /// Indexes of some uses in [`ProjectFacts::uses`], calls first.
    pub evidence: Vec<usize>,
}

/// The parts of a project and how they use each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProjectStructure {
    /// Parts, those that use others before those that are used.
    pub parts: Vec<ProjectPart>,
    /// Uses between parts.
    pub uses: Vec<PartUse>,
    /// Rank of each file, by index; the sum is 1.
    pub ranks: Vec<f64>,
}

impl ProjectStructure {
    /// The part of each file, by index.
    pub fn part_of_files(&self, files: usize) -> Vec<Option<usize>> {
        let mut part = vec![None; files];
        for (index, one) in self.parts.iter().enumerate() {
            one.files.iter().for_each(|file| part[*file] = Some(index));
        }
        part
    }
}

/// Finds the parts of a project.
pub fn structure(facts: &ProjectFacts) -> ProjectStructure {
    let mut files: Vec<usize> =
        (0..facts.files.len()).filter(|file| facts.files[*file].role == FileRole::Source).collect();
    if files.is_empty() {
        files = (0..facts.files.len()).collect();
    }
    let ranks = file_ranks(facts);
    let weights = FileWeights::new(facts);
    let groups = divide::divide(facts, &weights, &files);
    let mut parts: Vec<ProjectPart> = groups.into_iter().map(|files| part(facts, &ranks, files)).collect();
    order(facts, &weights, &mut parts);
    names::name_parts(facts, &files, &mut parts);
    for one in &mut parts {
        inner(facts, &weights, &ranks, one);
    }
    let uses = uses_between(facts, &weights, &parts);
    ProjectStructure { parts, uses, ranks }
}

fn part(facts: &ProjectFacts, ranks: &[f64], mut files: Vec<usize>) -> ProjectPart {
    files.sort_by(|left, right| ranks[*right].total_cmp(&ranks[*left]).then(left.cmp(right)));
    let key_symbols = key_symbols(facts, &files);
    ProjectPart {
        name: String::new(),
        slug: String::new(),
        files,
        key_symbols,
        groups: Vec::new(),
        group_uses: Vec::new(),
    }
}

/// Divides a part into groups. A part of one file has none.
fn inner(facts: &ProjectFacts, weights: &FileWeights, ranks: &[f64], one: &mut ProjectPart) {
    if one.files.len() < 2 {
        return;
    }
    let mut files = one.files.clone();
    files.sort_unstable();
    let groups = divide::divide(facts, weights, &files);
    let mut groups: Vec<ProjectPart> = groups.into_iter().map(|files| part(facts, ranks, files)).collect();
    order(facts, weights, &mut groups);
    names::name_parts(facts, &files, &mut groups);
    one.group_uses = uses_between(facts, weights, &groups);
    one.groups = groups;
}

/// Parts that use others come before those that are used.
fn order(facts: &ProjectFacts, weights: &FileWeights, parts: &mut [ProjectPart]) {
    let uses = uses_between(facts, weights, parts);
    let balance = |part: usize| {
        let out: f64 = uses.iter().filter(|one| one.from == part).map(|one| one.weight).sum();
        let into: f64 = uses.iter().filter(|one| one.to == part).map(|one| one.weight).sum();
        if out + into > 0.0 { (out - into) / (out + into) } else { -2.0 }
    };
    let mut keyed: Vec<(f64, usize)> = (0..parts.len()).map(|part| (balance(part), part)).collect();
    let first_file = |part: usize| parts[part].files.iter().min().copied();
    keyed
        .sort_by(|left, right| right.0.total_cmp(&left.0).then(first_file(left.1).cmp(&first_file(right.1))));
    let ordered: Vec<ProjectPart> = keyed.iter().map(|(_, part)| parts[*part].clone()).collect();
    parts.clone_from_slice(&ordered);
}

/// Symbols of these files that other files mention most; without any, the first public ones.
fn key_symbols(facts: &ProjectFacts, files: &[usize]) -> Vec<KeySymbol> {
    let mut counts: BTreeMap<(usize, &str), u32> = BTreeMap::new();
    for one in facts.dependencies().filter(|one| files.contains(&one.to)) {
        if let Some(symbol) = &one.to_symbol {
            *counts.entry((one.to, symbol.split('.').next().unwrap_or(symbol))).or_default() += 1;
        }
    }
    let line = |file: usize, name: &str| {
        facts.files[file].symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.line)
    };
    let mut counted: Vec<((usize, &str), u32)> = counts.into_iter().collect();
    counted.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(&right.0)));
    let mut found: Vec<KeySymbol> = counted
        .into_iter()
        .filter_map(|((file, name), _)| {
            Some(KeySymbol { file, name: name.to_owned(), line: line(file, name)? })
        })
        .take(KEY_SYMBOLS)
        .collect();
    let public = files.iter().take(3).flat_map(|file| {
        let symbols = facts.files[*file].symbols.iter();
        let wanted = symbols.filter(|symbol| {
            symbol.public
                && !symbol.name.contains('.')
                && !matches!(symbol.kind.as_str(), "constant" | "implementation" | "macro" | "declaration")
        });
        wanted.map(|symbol| KeySymbol { file: *file, name: symbol.name.clone(), line: symbol.line })
    });
    for symbol in public {
        if found.len() >= KEY_SYMBOLS {
            break;
        }
        if found.iter().all(|known| known.name != symbol.name) {
            found.push(symbol);
        }
    }
    found
}

/// Sums the uses of files to uses of parts.
fn uses_between(facts: &ProjectFacts, weights: &FileWeights, parts: &[ProjectPart]) -> Vec<PartUse> {
    let mut part_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, part) in parts.iter().enumerate() {
        part_of.extend(part.files.iter().map(|file| (*file, index)));
    }
    let mut found: BTreeMap<(usize, usize), PartUse> = BTreeMap::new();
    for (at, one) in facts.uses.iter().enumerate() {
        let (Some(from), Some(to)) = (part_of.get(&one.from), part_of.get(&one.to)) else { continue };
        if from == to || one.kind == UseKind::Indirect {
            continue;
        }
        let entry = found.entry((*from, *to)).or_insert_with(|| PartUse {
            from: *from,
            to: *to,
            count: 0,
            weight: 0.0,
            evidence: Vec::new(),
        });
        entry.count += 1;
        entry.evidence.push(at);
    }
    for ((low, high), weight) in weights.directed() {
        let (Some(from), Some(to)) = (part_of.get(low), part_of.get(high)) else { continue };
        if let Some(entry) = found.get_mut(&(*from, *to)) {
            entry.weight += weight;
        }
    }
    for entry in found.values_mut() {
        // Calls say most; among them those from and to files that matter come by their order in the facts.
        entry.evidence.sort_by_key(|at| (evidence_order(facts, *at), *at));
        entry.evidence.truncate(MAX_EVIDENCE);
    }
    found.into_values().collect()
}

fn evidence_order(facts: &ProjectFacts, at: usize) -> u8 {
    match facts.uses[at].kind {
        UseKind::Call => 0,
        UseKind::Reference => 1,
        UseKind::Import => 2,
        UseKind::Indirect => 3,
    }
}
