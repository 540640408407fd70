//! Names of parts: the folder that most of their files share, else the files that matter most.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::ProjectFacts;
use crate::structure::ProjectPart;

/// Share of files that must lie in a folder for it to give the name, in percent.
const FOLDER_SHARE: usize = 60;
/// Most important files of a part, one or two of which give it its name.
const NAMING_FILES: usize = 5;
/// File names that say nothing: their folder does.
const GENERAL_STEMS: &[&str] = &["__init__", "index", "mod", "lib", "main", "__main__", "doc"];

/// Names all parts, each differently.
pub(super) fn name_parts(facts: &ProjectFacts, files: &[usize], parts: &mut [ProjectPart]) {
    let common = common_folder(facts, files);
    let folders: Vec<Option<String>> = parts.iter().map(|part| shared_folder(facts, part, &common)).collect();
    let shared = shared_names(facts, files);
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for (part, folder) in parts.iter_mut().zip(&folders) {
        let claimed = folders.iter().flatten().filter(|other| Some(*other) == folder.as_ref()).count();
        let name = match folder {
            Some(folder) if claimed == 1 => folder.clone(),
            Some(folder) => format!("{folder}: {}", stems(facts, part, 1, &shared)),
            None => stems(facts, part, 2, &shared),
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

/// The last two names of a folder, without those that say nothing.
fn short(folder: &str) -> String {
    let names: Vec<&str> = folder
        .split('/')
        .filter(|name| {
            !matches!(*name, "src" | "lib" | "pkg" | "internal" | "main" | "java" | "crates" | "packages")
        })
        .collect();
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
    let public = first.iter().filter(|file| !is_private(*file));
    for file in public.chain(first.iter().filter(|file| is_private(*file))).chain(&part.files) {
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
