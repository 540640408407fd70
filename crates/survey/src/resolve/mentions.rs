//! Mentions of a file, resolved through its bindings.

use sandyard_explain::facts::{FileUse, UseKind};
use sandyard_syntax::SourceLanguage;

use crate::resolve::bindings::{BoundName, FileLinks};
use crate::resolve::index::{TreeIndex, folder};
use crate::scan::FoundMention;

/// Files that pass a name on to each other. A longer chain is a circle.
const MAX_HOPS: usize = 8;

/// The uses that the mentions of a file are.
pub(super) fn resolve(index: &TreeIndex<'_>, links: &[FileLinks], from: usize) -> Vec<FileUse> {
    let scan = &index.scans[from];
    let mut uses = Vec::new();
    for mention in &scan.mentions {
        let Some((to, symbol)) = target(index, links, from, mention) else { continue };
        let from_symbol =
            mention.within.and_then(|index| scan.symbols.get(index)).map(|symbol| symbol.name.clone());
        // Inside a file only calls tell something.
        if to == from
            && (!mention.call || from_symbol.as_ref() == Some(&symbol) || index.is_constant(to, &symbol))
        {
            continue;
        }
        uses.push(FileUse {
            from,
            to,
            kind: if mention.call { UseKind::Call } else { UseKind::Reference },
            line: mention.line,
            symbol: mention.path.last().cloned().unwrap_or_default(),
            from_symbol,
            to_symbol: Some(symbol),
        });
    }
    uses
}

/// The file and the symbol that a mention means, if that is certain.
fn target(
    index: &TreeIndex<'_>,
    links: &[FileLinks],
    from: usize,
    mention: &FoundMention,
) -> Option<(usize, String)> {
    let path = &mention.path;
    let scan = &index.scans[from];
    if matches!(path[0].as_str(), "self" | "this" | "cls") && path.len() == 2 {
        return own_method(index, from, mention).map(|method| (from, method));
    }
    if scan.language == SourceLanguage::Rust && path.len() > 1 {
        return index.rust().mention(index, links, from, mention);
    }
    // The longest module name first: `import a.b` binds `a.b`.
    for length in (1..=path.len()).rev() {
        if let Some(bound) = links[from].bindings.get(&path[..length].join(".")) {
            return follow(index, links, bound, &path[length..], MAX_HOPS);
        }
    }
    if index.defines(from, &path[0]) {
        let qualified = path.get(1).map(|member| format!("{}.{member}", path[0]));
        let name = qualified
            .filter(|name| index.defines(from, name))
            .or_else(|| (path.len() == 1).then(|| path[0].clone()))?;
        return Some((from, name));
    }
    if scan.locals.contains(&path[0]) {
        return None;
    }
    let defining: Vec<usize> = neighbours(index, links, from, &path[0]);
    match defining.as_slice() {
        [file] if path.len() == 1 || scan.language == SourceLanguage::Java => {
            let method = path.get(1).map(|member| format!("{}.{member}", path[0]));
            let name = method.filter(|name| index.defines(*file, name)).unwrap_or_else(|| path[0].clone());
            Some((*file, name))
        }
        _ => None,
    }
}

fn own_method(index: &TreeIndex<'_>, from: usize, mention: &FoundMention) -> Option<String> {
    let symbols = &index.scans[from].symbols;
    let around = symbols.get(mention.within?)?;
    let class = around.name.split_once('.').map_or(around.name.as_str(), |(class, _)| class);
    let method = format!("{class}.{}", mention.path[1]);
    index.defines(from, &method).then_some(method)
}

/// Files whose names need no import: wildcard imports, and the rest of the package.
fn neighbours(index: &TreeIndex<'_>, links: &[FileLinks], from: usize, name: &str) -> Vec<usize> {
    let scan = &index.scans[from];
    let wildcards = links[from].wildcards.iter().copied();
    let package: Vec<usize> = match scan.language {
        SourceLanguage::Go => index.package(SourceLanguage::Go, folder(&index.paths[from])).to_vec(),
        SourceLanguage::Java => {
            index.package(SourceLanguage::Java, scan.package.as_deref().unwrap_or_default()).to_vec()
        }
        SourceLanguage::C | SourceLanguage::Cpp => index.function(name).into_iter().collect(),
        _ => Vec::new(),
    };
    let same_package =
        |file: &usize| scan.language != SourceLanguage::Go || index.scans[*file].package == scan.package;
    let mut files: Vec<usize> = wildcards
        .chain(package.into_iter().filter(same_package))
        .filter(|file| *file != from && index.defines(*file, name))
        .collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// Follows a binding to the file that defines the symbol.
pub(super) fn follow(
    index: &TreeIndex<'_>,
    links: &[FileLinks],
    bound: &BoundName,
    rest: &[String],
    hops: usize,
) -> Option<(usize, String)> {
    let hops = hops.checked_sub(1)?;
    match bound {
        BoundName::File(file) => member(index, links, *file, rest, hops),
        BoundName::Symbol(file, symbol) => {
            let whole: Vec<String> = std::iter::once(symbol.clone()).chain(rest.iter().cloned()).collect();
            member(index, links, *file, &whole, hops)
        }
        BoundName::Package(files) => {
            let name = rest.first()?;
            let file = files.iter().find(|file| index.defines(**file, name))?;
            Some((*file, name.clone()))
        }
    }
}

/// A symbol of a file, or of the file that it has it from.
fn member(
    index: &TreeIndex<'_>,
    links: &[FileLinks],
    file: usize,
    path: &[String],
    hops: usize,
) -> Option<(usize, String)> {
    let name = path.first()?;
    if index.defines(file, name) {
        let qualified =
            path.get(1).map(|member| format!("{name}.{member}")).filter(|name| index.defines(file, name));
        return Some((file, qualified.unwrap_or_else(|| name.clone())));
    }
    if let Some(bound) = links[file].bindings.get(name) {
        return follow(index, links, bound, &path[1..], hops);
    }
    let hops = hops.checked_sub(1)?;
    links[file].wildcards.iter().find_map(|next| member(index, links, *next, path, hops))
}
