//! Names of parts: the folder that most of their files share, else the files that matter most.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::ProjectFacts;
use crate::structure::ProjectPart;

/// Share of files that must lie in a folder for it to give the name, in percent.
const FOLDER_SHARE: usize = 60;
/// Most important files of a part, one or two of which give it its name.
const NAMING_FILES: usize = 5;
/// Share of files that two folders must hold together to give the name, and the smaller of them alone, in percent.
const PAIR_SHARES: (usize, usize) = (60, 15);
/// Folders whose names say nothing.
const GENERAL_FOLDERS: &[&str] = &["src", "lib", "pkg", "internal", "main", "java", "crates", "packages"];
/// File names that say nothing: their folder does.
const GENERAL_STEMS: &[&str] = &["__init__", "index", "mod", "lib", "main", "__main__", "doc"];

/// Names all parts, each differently.
pub(super) fn name_parts(facts: &ProjectFacts, files: &[usize], parts: &mut [ProjectPart]) {
    let common = common_folder(facts, files);
    let folders: Vec<Option<String>> = parts.iter().map(|part| shared_folder(facts, part, &common)).collect();
    let pairs: Vec<Option<(String, String)>> =
        parts.iter().map(|part| folder_pair(facts, part, &common)).collect();
    let shared = shared_names(facts, files);
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for ((part, folder), pair) in parts.iter_mut().zip(&folders).zip(&pairs) {
        let claims = |names: &[Option<String>], name: &Option<String>| {
            names.iter().filter(|other| *other == name).count()
        };
        // Folders that two parts share tell neither from the other.
        let pair = pair.as_ref().filter(|pair| {
            let shared = |other: &(String, String)| {
                [&pair.0, &pair.1].iter().any(|name| [&other.0, &other.1].contains(name))
            };
            pairs.iter().flatten().filter(|other| shared(other)).count() == 1
        });
        let name = match (folder, pair) {
            (Some(name), _) if claims(&folders, folder) == 1 => name.clone(),
            (_, Some((first, second))) => format!("{first} + {second}"),
            (Some(folder), None) => format!("{folder}: {}", stems(facts, part, 1, &shared)),
            (None, None) => stems(facts, part, 2, &shared),
        };
        let times = used.entry(name.clone()).or_default();
        *times += 1;
        part.name = if *times > 1 { format!("{name} {times}") } else { name };
    }
    let mut slugs: BTreeMap<String, usize> = BTreeMap::new();
    for part in parts {
        let base = slug(&part.name);
        let times = slugs.entry(base.clone()).or_default();
        *times += 1;
        part.slug = if *times > 1 { format!("{base}-{times}") } else { base };
    }
}

/// The folder that holds all files, empty or with a slash at its end.
fn common_folder(facts: &ProjectFacts, files: &[usize]) -> String {
    let mut paths = files.iter().map(|file| facts.files[*file].path.as_str());
    let Some(first) = paths.next() else { return String::new() };
    let mut common = first.rsplit_once('/').map_or("", |(folder, _)| folder);
    for path in paths {
        while !common.is_empty() && !path.strip_prefix(common).is_some_and(|rest| rest.starts_with('/')) {
            common = common.rsplit_once('/').map_or("", |(folder, _)| folder);
        }
    }
    if common.is_empty() { String::new() } else { format!("{common}/") }
}

/// The deepest folder below `common` that holds most files of a part.
fn shared_folder(facts: &ProjectFacts, part: &ProjectPart, common: &str) -> Option<String> {
    if part.files.len() < 2 {
        return None;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &part.files {
        let mut path = facts.files[*file].path.strip_prefix(common)?;
        while let Some((folder, _)) = path.rsplit_once('/') {
            *counts.entry(folder).or_default() += 1;
            path = folder;
        }
    }
    let enough = |count: &usize| count * 100 >= part.files.len() * FOLDER_SHARE;
    let candidates = counts.iter().filter(|(_, count)| enough(count));
    let (folder, _) = candidates
        .max_by_key(|(folder, count)| (folder.matches('/').count(), **count, std::cmp::Reverse(**folder)))?;
    Some(short(folder))
}

/// The two folders that hold most files of a part, below the one that holds most of them all.
fn folder_pair(facts: &ProjectFacts, part: &ProjectPart, common: &str) -> Option<(String, String)> {
    let folders: Vec<Vec<&str>> = part
        .files
        .iter()
        .filter_map(|file| facts.files[*file].path.strip_prefix(common)?.rsplit_once('/'))
        .map(|(folder, _)| folder.split('/').filter(|name| !GENERAL_FOLDERS.contains(name)).collect())
        .collect();
    let of_part = |count: usize| count * 100 / part.files.len().max(1);
    let mut depth = 0;
    loop {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        folders
            .iter()
            .filter_map(|names| names.get(depth))
            .for_each(|name| *counts.entry(name).or_default() += 1);
        let mut counted: Vec<(&str, usize)> = counts.into_iter().collect();
        counted.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        match counted.as_slice() {
            // One folder holds most: those inside tell more.
            [(_, most), ..] if of_part(*most) >= 100 - PAIR_SHARES.1 => depth += 1,
            [(first, most), (second, more), ..]
                if of_part(most + more) >= PAIR_SHARES.0 && of_part(*more) >= PAIR_SHARES.1 =>
            {
                return Some(((*first).to_owned(), (*second).to_owned()));
            }
            _ => return None,
        }
    }
}

/// The last two names of a folder, without those that say nothing.
fn short(folder: &str) -> String {
    let names: Vec<&str> = folder.split('/').filter(|name| !GENERAL_FOLDERS.contains(name)).collect();
    let names = if names.is_empty() { vec![folder.rsplit('/').next().unwrap_or(folder)] } else { names };
    names[names.len().saturating_sub(2)..].join("/")
}

/// Names that several files have.
fn shared_names(facts: &ProjectFacts, files: &[usize]) -> BTreeSet<String> {
    let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        let name = name_of_file(&facts.files[*file].path, &facts.name);
        if !seen.insert(name.clone()) {
            shared.insert(name);
        }
    }
    shared
}

/// The names of the most important files, with their folder if the name alone could mean another.
fn stems(facts: &ProjectFacts, part: &ProjectPart, count: usize, shared: &BTreeSet<String>) -> String {
    let mut names: Vec<String> = Vec::new();
    // Of the files that matter, those that their authors meant for others say more.
    let is_private = |file: &usize| {
        let path = &facts.files[*file].path;
        path.rsplit('/').next().is_some_and(|name| name.starts_with('_') && !name.starts_with("__"))
    };
    let first = &part.files[..part.files.len().min(NAMING_FILES)];
    let public = first.iter().filter(|file| !is_private(file));
    for file in public.chain(first.iter().filter(|file| is_private(file))).chain(&part.files) {
        let path = &facts.files[*file].path;
        let mut name = name_of_file(path, &facts.name);
        let folder = path.rsplit('/').nth(1).filter(|folder| *folder != name && *folder != "src");
        if let Some(folder) = folder.filter(|_| shared.contains(&name)) {
            name = format!("{folder}/{name}");
        }
        if !names.contains(&name) && names.len() < count {
            names.push(name);
        }
    }
    names.join(" + ")
}

/// A file's name for people: without its end, and the folder's name if the file's says nothing.
pub(crate) fn name_of_file(path: &str, project: &str) -> String {
    let mut names = path.rsplit('/');
    let file = names.next().unwrap_or(path);
    let stem = file.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(file);
    if !GENERAL_STEMS.contains(&stem) {
        return stem.to_owned();
    }
    let folder = names.find(|name| *name != "src");
    let folder = folder.unwrap_or(project);
    if matches!(stem, "main" | "__main__") { format!("{folder} {stem}") } else { folder.to_owned() }
}

/// A name that is safe in paths and links.
pub(crate) fn slug(name: &str) -> String {
    let mut slug = String::new();
    for letter in name.chars().take(60) {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-').to_owned();
    if slug.is_empty() { "part".to_owned() } else { slug }
}
