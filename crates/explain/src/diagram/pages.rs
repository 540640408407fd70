//! The pages: all parts, and the inside of one.

use std::collections::BTreeMap;

use crate::diagram::dot::{ChangeLook, DrawnEdge, DrawnNode, DrawnPage, EdgeHeads, NodeLook};
use crate::diagram::select::{DrawnPair, select};
use crate::facts::{EntryFact, FileUse, ProjectFacts, UseKind};
use crate::structure::{PartUse, ProjectPart, ProjectStructure};

/// Entries, stores and neighbours on a page, each; more are folded.
const MAX_ENTRIES: usize = 4;
const MAX_STORES: usize = 5;
const MAX_NEIGHBOURS: usize = 6;

const ARROW: &str = "An arrow from A to B means: code in A uses code in B. Thicker: more uses.";
const BOTH: &str =
    "Two heads: both use each other about as much. Where one side uses far more, only its arrow is drawn.";
const START: &str = "A yellow box is where a run begins: its arrow leads to the part that holds the code.";
const STORE: &str = "A green cylinder is a data store.";
const LINE: &str = "A dotted line means: lies in this folder.";

/// The page of all parts.
pub fn overview_dot(facts: &ProjectFacts, structure: &ProjectStructure) -> String {
    let mut page = DrawnPage { title: facts.project_name().to_owned(), ..DrawnPage::default() };
    let link = |part: &ProjectPart| {
        if has_page(part) { Some(format!("diagrams/{}.svg", part.slug)) } else { file_link(facts, part) }
    };
    let nodes: Vec<DrawnNode> = structure
        .parts
        .iter()
        .enumerate()
        .map(|(at, part)| part_node(facts, part, &format!("p{at}"), link(part)))
        .collect();
    let (pairs, hidden) = select(&structure.uses, structure.parts.len());
    page.edges = pairs.iter().map(|pair| edge(facts, pair, "p", "p")).collect();
    let part_of = structure.part_of_files(facts.files.len());
    let entries = entry_nodes(facts, &part_of, &mut page);
    let stores = store_nodes(facts, &part_of, &mut page);
    page.nodes = [entries, nodes, stores].concat();
    finish(facts, &mut page, hidden);
    page.to_dot()
}

/// True if the inside of a part is worth a page.
pub(crate) fn has_page(part: &ProjectPart) -> bool {
    part.groups.len() > 1
}

/// The page of one part: its groups, and the parts around it.
pub fn part_dot(facts: &ProjectFacts, structure: &ProjectStructure, at: usize) -> String {
    let Some(part) = structure.parts.get(at) else { return DrawnPage::default().to_dot() };
    let mut page =
        DrawnPage { title: format!("{}: {}", facts.project_name(), part.name), ..DrawnPage::default() };
    let groups = part.groups.iter().enumerate();
    let mut nodes: Vec<DrawnNode> = groups
        .map(|(group, one)| part_node(facts, one, &format!("p{group}"), file_link(facts, one)))
        .collect();
    let (pairs, hidden) = select(&part.group_uses, part.groups.len());
    page.edges = pairs.iter().map(|pair| edge(facts, pair, "p", "p")).collect();
    nodes.extend(neighbours(facts, structure, at, &mut page));
    page.nodes = nodes;
    finish(facts, &mut page, hidden);
    page.to_dot()
}

/// Adds the legend, and removes or ties what no line reaches.
pub(super) fn finish(facts: &ProjectFacts, page: &mut DrawnPage, hidden: usize) {
    let touched = |id: &str, edges: &[DrawnEdge]| edges.iter().any(|edge| edge.from == id || edge.to == id);
    let (kept, loose): (Vec<DrawnNode>, Vec<DrawnNode>) =
        std::mem::take(&mut page.nodes).into_iter().partition(|node| touched(&node.id, &page.edges));
    page.nodes = kept;
    page.legend.extend(legend(page).into_iter().map(str::to_owned));
    if hidden > 0 {
        page.legend
            .push(format!("{hidden} weaker {} not drawn.", if hidden == 1 { "use is" } else { "uses are" }));
    }
    if page.nodes.is_empty() && !loose.is_empty() {
        // Nothing uses anything: the folder is what they share.
        let folder = plain_node("f0", NodeLook::Folder, facts.project_name());
        page.edges = loose
            .iter()
            .map(|node| DrawnEdge {
                from: "f0".to_owned(),
                to: node.id.clone(),
                heads: EdgeHeads::None,
                change: ChangeLook::Same,
                width: 1.0,
                link: None,
                tooltip: "lies in this folder".to_owned(),
            })
            .collect();
        page.nodes.push(folder);
        page.nodes.extend(loose);
        page.legend.push(LINE.to_owned());
    } else if !loose.is_empty() {
        let names: Vec<&str> = loose.iter().map(|node| node.title.as_str()).take(6).collect();
        let more = if loose.len() > 6 { format!(" and {} more", loose.len() - 6) } else { String::new() };
        page.legend.push(format!("Not connected with the others: {}{more}.", names.join(", ")));
    }
}

/// Says what the boxes and lines of this page mean, and nothing about others.
fn legend(page: &DrawnPage) -> Vec<&'static str> {
    let looks = |look: NodeLook| page.nodes.iter().any(|node| node.look == look);
    [
        (!page.edges.is_empty(), ARROW),
        (page.edges.iter().any(|edge| edge.heads == EdgeHeads::Both), BOTH),
        (looks(NodeLook::Entry), START),
        (looks(NodeLook::Store), STORE),
    ]
    .into_iter()
    .filter_map(|(shown, line)| shown.then_some(line))
    .collect()
}

pub(super) fn plain_node(id: &str, look: NodeLook, title: &str) -> DrawnNode {
    DrawnNode {
        id: id.to_owned(),
        look,
        change: ChangeLook::Same,
        title: title.to_owned(),
        lines: Vec::new(),
        link: None,
        tooltip: title.to_owned(),
    }
}

pub(super) fn part_node(
    facts: &ProjectFacts,
    part: &ProjectPart,
    id: &str,
    link: Option<String>,
) -> DrawnNode {
    let mut lines = Vec::new();
    if part.files.len() == 1 {
        lines.push(short_path(&facts.files[part.files[0]].path));
    } else {
        lines.push(format!("{} files", part.files.len()));
    }
    let names: Vec<&str> = part.key_symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    let mut symbols = String::new();
    for name in names {
        if symbols.len() + name.len() > 30 && !symbols.is_empty() {
            break;
        }
        symbols = if symbols.is_empty() { name.to_owned() } else { format!("{symbols}, {name}") };
    }
    if !symbols.is_empty() {
        lines.push(symbols);
    }
    let doc = part.files.first().and_then(|file| facts.files[*file].doc.clone());
    DrawnNode {
        lines,
        link,
        tooltip: doc.unwrap_or_else(|| part.name.clone()),
        ..plain_node(id, NodeLook::Part, &part.name)
    }
}

/// The last two names of a path.
fn short_path(path: &str) -> String {
    let names: Vec<&str> = path.split('/').collect();
    names[names.len().saturating_sub(2)..].join("/")
}

fn file_link(facts: &ProjectFacts, part: &ProjectPart) -> Option<String> {
    let file = &facts.files[*part.files.first()?];
    let line = part
        .key_symbols
        .iter()
        .find(|symbol| facts.files[symbol.file].path == file.path)
        .map_or(1, |symbol| symbol.line);
    Some(line_link(&file.path, line))
}

/// A relative link to a line of a file, as forges and our pages understand it.
pub(crate) fn line_link(path: &str, line: u32) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    // A path whose first name has a colon would be read as a scheme; the colon is escaped above.
    format!("{out}#L{line}")
}

pub(super) fn edge(facts: &ProjectFacts, pair: &DrawnPair, from: &str, to: &str) -> DrawnEdge {
    let proof = |at: &usize| facts.uses.get(*at);
    let first = pair.evidence.first().and_then(proof);
    let mut tooltip = first.map(|one| evidence_text(facts, one, pair.count)).unwrap_or_default();
    // Each head has a proof of its own.
    if let Some(back) = pair.back.as_ref().and_then(proof) {
        tooltip.push_str(&format!("; back: {}", evidence_text(facts, back, 1)));
    }
    DrawnEdge {
        from: format!("{from}{}", pair.from),
        to: format!("{to}{}", pair.to),
        heads: if pair.back.is_some() { EdgeHeads::Both } else { EdgeHeads::One },
        change: ChangeLook::Same,
        width: 0.8 + (1.0 + f64::from(pair.count)).ln() * 0.35,
        link: first.map(|one| line_link(&facts.files[one.from].path, one.line)),
        tooltip,
    }
}

/// Evidence of a line, such as `cli.py:12 calls run (and 14 more)`.
pub(crate) fn evidence_text(facts: &ProjectFacts, one: &FileUse, count: u32) -> String {
    let verb = match one.kind {
        UseKind::Import => "imports",
        UseKind::Call => "calls",
        UseKind::Reference => "mentions",
        UseKind::Indirect => "is given and calls",
    };
    let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    format!("{}:{} {verb} {}{more}", facts.files[one.from].path, one.line, one.symbol)
}

/// One box for the entries of each part, and one for its routes.
fn entry_nodes(facts: &ProjectFacts, part_of: &[Option<usize>], page: &mut DrawnPage) -> Vec<DrawnNode> {
    let mut by_part: BTreeMap<usize, Vec<&EntryFact>> = BTreeMap::new();
    for entry in &facts.entries {
        if let Some(part) = part_of[entry.file] {
            by_part.entry(part).or_default().push(entry);
        }
    }
    let mut nodes = Vec::new();
    let mut counted: Vec<(usize, Vec<&EntryFact>)> = by_part.into_iter().collect();
    counted.sort_by_key(|(part, entries)| (std::cmp::Reverse(entries.len()), *part));
    for (part, entries) in counted.into_iter().take(MAX_ENTRIES) {
        let id = format!("e{part}");
        let names: Vec<&str> = entries.iter().take(3).map(|entry| entry.name.as_str()).collect();
        let (title, line) = match names.as_slice() {
            [name] => ((*name).to_owned(), "starts here".to_owned()),
            names => (format!("{} commands", entries.len()), names.join(", ")),
        };
        let (path, line_number, symbol) = entry_place(facts, entries[0]);
        let link = line_link(path, line_number);
        nodes.push(DrawnNode {
            lines: vec![line],
            link: Some(link.clone()),
            ..plain_node(&id, NodeLook::Entry, &title)
        });
        page.edges.push(start_edge(&id, part, link, format!("{path}:{line_number} starts {symbol}")));
    }
    let mut routes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, route) in facts.routes.iter().enumerate() {
        if let Some(part) = part_of[route.file] {
            routes.entry(part).or_default().push(at);
        }
    }
    let mut counted: Vec<(usize, Vec<usize>)> = routes.into_iter().collect();
    counted.sort_by_key(|(part, routes)| (std::cmp::Reverse(routes.len()), *part));
    for (part, found) in counted.into_iter().take(MAX_ENTRIES) {
        let id = format!("r{part}");
        let first = &facts.routes[found[0]];
        let title =
            if found.len() == 1 { "1 HTTP route".to_owned() } else { format!("{} HTTP routes", found.len()) };
        let path = &facts.files[first.file].path;
        let link = line_link(path, first.line);
        let lines = vec![format!("{} {}", first.method, first.path)];
        nodes.push(DrawnNode { lines, link: Some(link.clone()), ..plain_node(&id, NodeLook::Entry, &title) });
        page.edges.push(start_edge(&id, part, link, format!("{path}:{} answers {}", first.line, first.path)));
    }
    nodes
}

/// The line that says where an entry begins: its own, or that of the manifest which names the whole file.
fn entry_place<'facts>(
    facts: &'facts ProjectFacts,
    entry: &'facts EntryFact,
) -> (&'facts str, u32, &'facts str) {
    match &entry.declared {
        Some(place) if entry.symbol.is_empty() => (&place.path, place.line, &place.symbol),
        _ => (&facts.files[entry.file].path, entry.line, &entry.symbol),
    }
}

fn start_edge(id: &str, part: usize, link: String, tooltip: String) -> DrawnEdge {
    DrawnEdge {
        from: id.to_owned(),
        to: format!("p{part}"),
        heads: EdgeHeads::One,
        change: ChangeLook::Same,
        width: 1.2,
        link: Some(link),
        tooltip,
    }
}

/// One box for each store, with a line from the parts that talk to it.
fn store_nodes(facts: &ProjectFacts, part_of: &[Option<usize>], page: &mut DrawnPage) -> Vec<DrawnNode> {
    let mut by_name: BTreeMap<&str, BTreeMap<usize, usize>> = BTreeMap::new();
    for (at, store) in facts.stores.iter().enumerate() {
        if let Some(part) = part_of[store.file] {
            by_name.entry(&store.name).or_default().entry(part).or_insert(at);
        }
    }
    let mut nodes = Vec::new();
    for (number, (name, parts)) in by_name.into_iter().take(MAX_STORES).enumerate() {
        let id = format!("s{number}");
        nodes.push(plain_node(&id, NodeLook::Store, name));
        for (part, at) in parts.into_iter().take(3) {
            let store = &facts.stores[at];
            let path = &facts.files[store.file].path;
            page.edges.push(DrawnEdge {
                from: format!("p{part}"),
                to: id.clone(),
                heads: EdgeHeads::One,
                change: ChangeLook::Same,
                width: 1.2,
                link: Some(line_link(path, store.line)),
                tooltip: format!("{path}:{} uses {}", store.line, store.symbol),
            });
        }
    }
    nodes
}

/// The parts that a part uses or that use it, with lines to its groups.
fn neighbours(
    facts: &ProjectFacts,
    structure: &ProjectStructure,
    at: usize,
    page: &mut DrawnPage,
) -> Vec<DrawnNode> {
    let part_of = structure.part_of_files(facts.files.len());
    let mut group_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (group, one) in structure.parts[at].groups.iter().enumerate() {
        group_of.extend(one.files.iter().map(|file| (*file, group)));
    }
    let mut lines: BTreeMap<(bool, usize, usize), PartUse> = BTreeMap::new();
    let drawn = facts.uses.iter().enumerate().filter(|(_, one)| one.kind != UseKind::Indirect);
    for (index, one) in drawn {
        let (Some(from), Some(to)) = (part_of[one.from], part_of[one.to]) else { continue };
        let (out, group, other) = match (from == at, to == at) {
            (true, false) => (true, group_of.get(&one.from), to),
            (false, true) => (false, group_of.get(&one.to), from),
            _ => continue,
        };
        let Some(group) = group else { continue };
        let line = lines.entry((out, *group, other)).or_insert_with(|| PartUse {
            from: *group,
            to: other,
            count: 0,
            weight: 0.0,
            evidence: vec![index],
        });
        line.count += 1;
    }
    let mut strength: BTreeMap<usize, u32> = BTreeMap::new();
    for ((_, _, other), line) in &lines {
        *strength.entry(*other).or_default() += line.count;
    }
    let mut others: Vec<(usize, u32)> = strength.into_iter().collect();
    others.sort_by_key(|(other, count)| (std::cmp::Reverse(*count), *other));
    let mut nodes = Vec::new();
    for (other, _) in others.into_iter().take(MAX_NEIGHBOURS) {
        let part = &structure.parts[other];
        let id = format!("o{other}");
        let link = has_page(part).then(|| format!("{}.svg", part.slug));
        nodes.push(DrawnNode {
            lines: vec!["another part".to_owned()],
            link,
            ..plain_node(&id, NodeLook::Outside, &part.name)
        });
        // The strongest line each way is enough to say that they are connected.
        for direction in [true, false] {
            let strongest = lines
                .iter()
                .filter(|((out, _, found), _)| *out == direction && *found == other)
                .max_by_key(|((_, group, _), line)| (line.count, std::cmp::Reverse(*group)));
            let Some(((_, group, _), line)) = strongest else { continue };
            let pair = DrawnPair {
                from: *group,
                to: other,
                back: None,
                count: line.count,
                weight: line.weight,
                evidence: line.evidence.clone(),
            };
            let drawn = edge(facts, &pair, "p", "o");
            page.edges.push(if direction {
                drawn
            } else {
                DrawnEdge { from: drawn.to, to: drawn.from, ..drawn }
            });
        }
    }
    nodes
}
