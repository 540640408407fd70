//! One run followed through the files: from an entry along calls, preferring those that lead into other files.

use std::collections::BTreeSet;

use crate::facts::{FileUse, ProjectFacts, SymbolFact, UseKind};
use crate::structure::ProjectStructure;
use crate::text::escape::{code_span, place, words};

/// Steps of the way.
const MAX_STEPS: usize = 9;

/// Routes and entries that are tried.
const MAX_STARTS: usize = 20;
/// A way of an entry with fewer steps is compared with ways of other symbols.
const GOOD_STEPS: usize = 4;

/// Where a way begins.
#[derive(Clone)]
struct WayStart {
    file: usize,
    symbol: Option<String>,
    title: String,
}

pub(super) fn walkthrough(facts: &ProjectFacts, structure: &ProjectStructure) -> String {
    let longest = |starts: Vec<WayStart>| {
        let ways = starts.into_iter().map(|start| (follow(facts, structure, &start), start));
        // The longest way tells most; of equals, the first.
        ways.rev().max_by_key(|(steps, _)| steps.len())
    };
    let best = longest(starts(facts)).filter(|(steps, _)| steps.len() >= GOOD_STEPS);
    let best = best.or_else(|| longest([starts(facts), symbol_starts(facts, structure)].concat()));
    let Some((steps, start)) = best.filter(|(steps, _)| steps.len() >= 2) else { return String::new() };
    let part_of = structure.part_of_files(facts.files.len());
    let part = |file: usize| part_of[file].map(|part| structure.parts[part].name.as_str());
    let mut out = format!("## How the parts work together\n\n{}\n\n", start.title);
    let mut last = part(start.file);
    for one in steps {
        let verb = match one.kind {
            UseKind::Call => "calls",
            UseKind::Import => "imports",
            UseKind::Reference => "uses",
            UseKind::Indirect => "is given and calls",
        };
        let from = one.from_symbol.as_deref().map(code_span).unwrap_or_else(|| "the file itself".to_owned());
        let to = one.to_symbol.as_deref().unwrap_or(&one.symbol);
        let target = facts.files[one.to].symbols.iter().find(|symbol| symbol.name == to);
        let now = part(one.to);
        let into = match now {
            Some(name) if now != last => format!(" in **{}**", words(name)),
            _ => String::new(),
        };
        last = now;
        let doc = target
            .and_then(|symbol| symbol.doc.as_deref())
            .map(|doc| format!(": {}", words(doc)))
            .unwrap_or_default();
        let at = place(&facts.files[one.to].path, target.map_or(1, |symbol| symbol.line));
        out.push_str(&format!(
            "1. {} {from} {verb} {}{into} ({at}){doc}\n",
            place(&facts.files[one.from].path, one.line),
            code_span(to)
        ));
    }
    out
}

/// Routes and entries.
fn starts(facts: &ProjectFacts) -> Vec<WayStart> {
    let mut starts = Vec::new();
    for route in facts.routes.iter().take(MAX_STARTS) {
        let title = format!(
            "A request {} is answered like this:",
            code_span(&format!("{} {}", route.method, route.path))
        );
        starts.push(WayStart { file: route.file, symbol: route.handler.clone(), title });
    }
    for entry in facts.entries.iter().take(MAX_STARTS) {
        let symbol = Some(entry.symbol.clone())
            .filter(|symbol| !symbol.is_empty() && symbol != "__main__" && symbol != "listen");
        let title = format!(
            "A run of {} goes like this:",
            code_span(entry.command.as_deref().unwrap_or(&entry.name))
        );
        starts.push(WayStart { file: entry.file, symbol, title });
    }
    starts
}

/// Public functions of the files that matter, for a library that nothing starts.
fn symbol_starts(facts: &ProjectFacts, structure: &ProjectStructure) -> Vec<WayStart> {
    let files = structure.parts.iter().flat_map(|part| part.files.iter().take(2)).copied();
    let symbols = files.flat_map(|file| {
        let symbols = facts.files[file].symbols.iter();
        symbols
            .filter(|symbol| symbol.public && matches!(symbol.kind.as_str(), "function" | "method"))
            .take(10)
            .map(move |symbol| (file, symbol))
    });
    let start = |(file, symbol): (usize, &SymbolFact)| WayStart {
        file,
        symbol: Some(symbol.name.clone()),
        title: format!(
            "A call of {} in {} goes like this:",
            code_span(&symbol.name),
            place(&facts.files[file].path, symbol.line)
        ),
    };
    symbols.map(start).collect()
}

fn follow<'facts>(
    facts: &'facts ProjectFacts,
    structure: &ProjectStructure,
    start: &WayStart,
) -> Vec<&'facts FileUse> {
    let mut steps: Vec<&FileUse> = Vec::new();
    let mut visited: BTreeSet<(usize, Option<&str>)> = BTreeSet::new();
    let (mut file, mut symbol) = (start.file, start.symbol.as_deref());
    let mut files = BTreeSet::from([file]);
    while steps.len() < MAX_STEPS {
        visited.insert((file, symbol));
        let first = steps.is_empty();
        let within = |one: &&FileUse| {
            let from = one.from_symbol.as_deref();
            match symbol {
                Some(name) => {
                    from == Some(name)
                        || from.is_some_and(|from| {
                            from.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
                        })
                }
                // A file that is run begins outside of its functions; if nothing is called there, anywhere in it.
                None => from.is_none() || first,
            }
        };
        let begin = facts.uses.partition_point(|one| one.from < file);
        let own = facts.uses[begin..].iter().take_while(|one| one.from == file);
        let candidates = own
            .filter(|one| one.kind == UseKind::Call)
            .filter(within)
            .filter(|one| !visited.contains(&(one.to, one.to_symbol.as_deref())));
        // Calls from there on: something that goes on is better than an end, another file better than the same.
        let score = |one: &&FileUse| {
            let goes_on = calls_from(facts, one.to, one.to_symbol.as_deref());
            let fresh = !files.contains(&one.to);
            (goes_on.min(1) + usize::from(fresh) * 2, (structure.ranks[one.to] * 1e6) as u64, goes_on.min(20))
        };
        let Some(next) = candidates.max_by(|left, right| {
            score(left).cmp(&score(right)).then((right.line, right.to).cmp(&(left.line, left.to)))
        }) else {
            break;
        };
        steps.push(next);
        files.insert(next.to);
        (file, symbol) = (next.to, next.to_symbol.as_deref());
    }
    steps
}

/// Number of calls that a symbol makes into other symbols.
fn calls_from(facts: &ProjectFacts, file: usize, symbol: Option<&str>) -> usize {
    let begin = facts.uses.partition_point(|one| one.from < file);
    let own = facts.uses[begin..].iter().take_while(|one| one.from == file).take(2000);
    own.filter(|one| one.kind == UseKind::Call && one.from_symbol.as_deref() == symbol).count()
}
