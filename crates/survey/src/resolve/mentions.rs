//! Mentions of a file, resolved through its bindings.

use sandyard_explain::facts::{FileUse, UseKind};
use sandyard_syntax::SourceLanguage;

use crate::resolve::bindings::{BoundName, FileLinks};
use crate::resolve::calls::KnownCalls;
use crate::resolve::index::{TreeIndex, folder};
use crate::scan::{FoundAlias, FoundMention};

/// Files that pass a name on to each other. A longer chain is a circle.
const MAX_HOPS: usize = 8;

/// Methods of a class in which assignments to `self` are looked for.
const MAX_METHODS: usize = 200;

/// The uses that the mentions of a file are. Calls of files whose calls are known are only mentions here.
pub(super) fn resolve(
    index: &TreeIndex<'_>,
    links: &[FileLinks],
    from: usize,
    known: &KnownCalls,
) -> Vec<FileUse> {
    let scan = &index.scans[from];
    let decided = known.files.contains(&from);
    let mut uses = Vec::new();
    for mention in &scan.mentions {
        let Some((to, symbol)) = target(index, links, from, mention) else { continue };
        let from_symbol =
            mention.within.and_then(|index| scan.symbols.get(index)).map(|symbol| symbol.name.clone());
        // What a call of a constant runs is not known.
        let called = mention.call && !decided && !index.is_constant(to, &symbol);
        // Inside a file only calls tell something.
        if to == from && (!called || from_symbol.as_ref() == Some(&symbol)) {
            continue;
        }
        let kind = if called { UseKind::Call } else { UseKind::Reference };
        if decided && mention.call && known.has(from, to, mention.line, &symbol) {
            continue;
        }
        uses.push(FileUse {
            from,
            to,
            kind,
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
    let lookup = NameLookup { index, links, from };
    lookup.path(&mention.path, mention.within, Some(mention), MAX_HOPS)
}

/// Finds what names of a file mean.
struct NameLookup<'tree, 'facts> {
    index: &'tree TreeIndex<'facts>,
    links: &'tree [FileLinks],
    from: usize,
}

impl NameLookup<'_, '_> {
    fn path(
        &self,
        path: &[String],
        within: Option<usize>,
        mention: Option<&FoundMention>,
        hops: usize,
    ) -> Option<(usize, String)> {
        let hops = hops.checked_sub(1)?;
        let (index, from) = (self.index, self.from);
        let scan = &index.scans[from];
        if matches!(path[0].as_str(), "self" | "this" | "cls") {
            return self.own(path, within, hops);
        }
        if scan.language == SourceLanguage::Rust && path.len() > 1 {
            return mention.and_then(|mention| index.rust().mention(index, self.links, from, mention));
        }
        if let Some(aliases) = self.aliases(&path[0], within) {
            return self.alias(&aliases, path, hops);
        }
        // The longest module name first: `import a.b` binds `a.b`.
        for length in (1..=path.len()).rev() {
            if let Some(bound) = self.links[from].bindings.get(&path[..length].join(".")) {
                return follow(index, self.links, bound, &path[length..], MAX_HOPS);
            }
        }
        if index.defines(from, &path[0]) {
            let Some(member) = path.get(1) else { return Some((from, path[0].clone())) };
            return self.method(from, &path[0], member, hops).filter(|_| path.len() == 2);
        }
        if scan.locals.contains(&path[0]) {
            return None;
        }
        match neighbours(index, self.links, from, &path[0]).as_slice() {
            [file] if path.len() == 1 || scan.language == SourceLanguage::Java => {
                let method = path.get(1).map(|member| format!("{}.{member}", path[0]));
                let name =
                    method.filter(|name| index.defines(*file, name)).unwrap_or_else(|| path[0].clone());
                Some((*file, name))
            }
            _ => None,
        }
    }

    /// `self.method`, or a method of what `self.attribute` was assigned.
    fn own(&self, path: &[String], within: Option<usize>, hops: usize) -> Option<(usize, String)> {
        let symbols = &self.index.scans[self.from].symbols;
        let around = &symbols.get(within?)?.name;
        let class = self.class_around(around);
        let member = path.get(1)?;
        if path.len() == 2 {
            return self.method(self.from, class, member, hops).or_else(|| self.attribute(class, path, hops));
        }
        self.attribute(class, path, hops)
    }

    /// The innermost class that a qualified name begins with.
    fn class_around<'name>(&self, name: &'name str) -> &'name str {
        let ends = name.rmatch_indices('.').map(|(at, _)| &name[..at]);
        let class = ends.into_iter().find(|begin| self.index.is_class(self.from, begin));
        class.unwrap_or_else(|| name.split_once('.').map_or(name, |(class, _)| class))
    }

    /// What the only assignment to `self.name` in a class means.
    fn attribute(&self, class: &str, path: &[String], hops: usize) -> Option<(usize, String)> {
        let scan = &self.index.scans[self.from];
        let name = format!("self.{}", path.get(1)?);
        let prefix = format!("{class}.");
        let methods = scan
            .symbols
            .iter()
            .enumerate()
            .filter(|(_, symbol)| symbol.name.starts_with(&prefix))
            .take(MAX_METHODS);
        let found: Vec<&FoundAlias> =
            methods.flat_map(|(place, _)| self.index.aliases(self.from, Some(place), &name)).collect();
        self.alias(&found, &path[1..], hops)
    }

    /// Assignments to a name, in the innermost place that has any. `None` if it has none and means something else.
    fn aliases(&self, name: &str, within: Option<usize>) -> Option<Vec<&FoundAlias>> {
        for place in [within, None] {
            let found = self.index.aliases(self.from, place, name);
            if !found.is_empty() {
                return Some(found);
            }
        }
        None
    }

    /// What a variable stands for, if it is assigned once. Two assignments could mean two things.
    fn alias(&self, found: &[&FoundAlias], path: &[String], hops: usize) -> Option<(usize, String)> {
        let [alias] = found else { return None };
        if alias.path.is_empty() || alias.path[0] == path[0] && alias.within.is_none() {
            return None;
        }
        let (file, symbol) = self.path(&alias.path, alias.within, None, hops)?;
        match (alias.made, path) {
            (false, [_]) => Some((file, symbol)),
            (_, [_, member]) if self.index.is_class(file, &symbol) => {
                self.method(file, &symbol, member, hops)
            }
            _ => None,
        }
    }

    /// A method of a class or of its bases.
    fn method(&self, file: usize, class: &str, member: &str, hops: usize) -> Option<(usize, String)> {
        let hops = hops.checked_sub(1)?;
        let name = format!("{class}.{member}");
        if self.index.defines(file, &name) {
            return Some((file, name));
        }
        let scan = &self.index.scans[file];
        let there = NameLookup { index: self.index, links: self.links, from: file };
        let bases = scan
            .bases
            .iter()
            .filter(|(at, _)| scan.symbols.get(*at).is_some_and(|symbol| symbol.name == class));
        bases.into_iter().find_map(|(_, base)| {
            let (base_file, base_class) = there.path(base, None, None, hops)?;
            there.method(base_file, &base_class, member, hops)
        })
    }
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
    // A header that declares the function and the file that defines it mean the same one.
    if files.iter().any(|file| !index.only_declares(*file, name)) {
        files.retain(|file| !index.only_declares(*file, name));
    }
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
