//! The survey: from a tree of files to facts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sandyard_explain::facts::{FACTS_VERSION, FileFacts, FileRole, MarkFact, ProjectFacts, RouteFact};
use sandyard_syntax::{ParseLimits, SourceLanguage};

use crate::entries::entries;
use crate::files::{FileTree, TreeFile, role};
use crate::manifests::TreeManifests;
use crate::resolve::{TreeIndex, add_modules, resolve};
use crate::scan::{FileScan, cut, first_sentence, scan};
use crate::stores::stores;

/// Symbols kept of one file in the facts.
const MAX_SYMBOLS: usize = 2000;
/// Notes kept of the whole tree.
const MAX_MARKS: usize = 200;

/// Bounds of a survey.
#[derive(Clone, Copy, Debug)]
pub struct SurveyLimits {
    /// Threads that scan files.
    pub threads: usize,
    /// Bounds of each parse.
    pub parse: ParseLimits,
    /// When this much time has passed, the remaining files are scanned by lines only.
    pub time: Duration,
}

impl Default for SurveyLimits {
    fn default() -> Self {
        Self { threads: 2, parse: ParseLimits::default(), time: Duration::from_secs(120) }
    }
}

/// Finds the facts of a tree.
pub fn survey(tree: &FileTree, limits: SurveyLimits) -> ProjectFacts {
    let sources: Vec<(&TreeFile, SourceLanguage)> = tree
        .files
        .iter()
        .filter_map(|file| Some((file, SourceLanguage::detect(&file.path, &file.bytes)?)))
        .collect();
    let scans = scan_all(&sources, limits);
    let manifests = TreeManifests::read(tree);
    let paths: Vec<String> = sources.iter().map(|(file, _)| file.path.clone()).collect();
    let roles: Vec<FileRole> = paths.iter().map(|path| role(path)).collect();
    let mut index = TreeIndex::new(&paths, &roles, &scans, &manifests);
    add_modules(&mut index);
    let resolved = resolve(&index);
    let entries = entries(&index, &resolved.uses);
    let routes = scans.iter().enumerate().filter(|(file, _)| roles[*file] == FileRole::Source);
    let routes = routes.flat_map(|(file, scan)| {
        scan.routes.iter().map(move |route| RouteFact {
            file,
            line: route.line,
            method: route.method.clone(),
            path: cut(&route.path, 120),
            handler: route.handler.clone(),
        })
    });
    let mut routes: Vec<RouteFact> = routes.collect();
    routes.sort();
    let mut found_stores: Vec<_> = (0..scans.len())
        .filter(|file| roles[*file] == FileRole::Source)
        .flat_map(|file| stores(file, &scans[file]))
        .collect();
    let names: Vec<String> = std::iter::once(&tree.name)
        .chain(manifests.facts.iter().filter_map(|fact| fact.name.as_ref()))
        .map(|name| plain(name))
        .collect();
    // A store does not keep its data in itself.
    found_stores.retain(|store| !names.contains(&plain(&store.name)));
    found_stores.sort();
    let marks = scans.iter().enumerate().flat_map(|(file, scan)| {
        scan.marks.iter().map(move |(line, text)| MarkFact { file, line: *line, text: text.clone() })
    });
    let marks = marks.filter(|mark| roles[mark.file] == FileRole::Source).take(MAX_MARKS).collect();
    let files = sources
        .iter()
        .zip(&scans)
        .enumerate()
        .map(|(file, ((source, _), scan))| file_facts(source, scan, roles[file]))
        .collect();
    ProjectFacts {
        version: FACTS_VERSION,
        name: tree.name.clone(),
        readme: readme(tree),
        title: readme_title(tree),
        files,
        uses: resolved.uses,
        libraries: resolved.libraries,
        entries,
        routes,
        stores: found_stores,
        manifests: manifests.facts,
        marks,
        left_out: tree.left_out.clone(),
    }
}

/// A name without case and signs.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Scans files on several threads. The result does not depend on which thread scanned what.
fn scan_all(sources: &[(&TreeFile, SourceLanguage)], limits: SurveyLimits) -> Vec<FileScan> {
    let next = AtomicUsize::new(0);
    let deadline = Instant::now() + limits.time;
    let done: Mutex<Vec<(usize, FileScan)>> = Mutex::new(Vec::with_capacity(sources.len()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((file, language)) = sources.get(at) else { return };
            let parse = if Instant::now() < deadline {
                limits.parse
            } else {
                ParseLimits { source_bytes: 0, ..limits.parse }
            };
            let scanned = scan(*language, &file.bytes, parse);
            if let Ok(mut done) = done.lock() {
                done.push((at, scanned));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..limits.threads.min(sources.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut scans = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    scans.sort_by_key(|(at, _)| *at);
    scans.into_iter().map(|(_, scan)| scan).collect()
}

fn file_facts(source: &TreeFile, scan: &FileScan, role: FileRole) -> FileFacts {
    FileFacts {
        path: source.path.clone(),
        language: scan.language.name().to_owned(),
        lines: scan.lines,
        role,
        depth: scan.depth,
        doc: scan.doc.clone(),
        symbols: scan.symbols.iter().take(MAX_SYMBOLS).cloned().collect(),
        hash: hash(&source.bytes),
    }
}

/// FNV-1a. It tells whether a file changed, and is no protection against somebody who wants to hide that.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Letters of a title; a longer heading is a sentence.
const MAX_TITLE_LETTERS: usize = 40;

/// The first heading of the README, if it is a plain name.
fn readme_title(tree: &FileTree) -> Option<String> {
    let file = tree.files.iter().find(|file| file.path.eq_ignore_ascii_case("readme.md"))?;
    let text = String::from_utf8_lossy(&file.bytes[..file.bytes.len().min(20_000)]).into_owned();
    let title = text.lines().find_map(|line| line.strip_prefix("# "))?.trim().trim_matches('`').to_owned();
    let is_name = |letter: char| letter.is_alphanumeric() || " -_./+".contains(letter);
    (!title.is_empty() && title.chars().count() <= MAX_TITLE_LETTERS && title.chars().all(is_name))
        .then_some(title)
}

/// The first paragraph of the README that is a sentence.
fn readme(tree: &FileTree) -> Option<String> {
    let file = tree.files.iter().find(|file| file.path.to_ascii_lowercase().starts_with("readme"))?;
    let text = String::from_utf8_lossy(&file.bytes[..file.bytes.len().min(20_000)]).into_owned();
    let mut fenced = false;
    let mut paragraphs = text.split("\n\n").filter(|paragraph| {
        let first = paragraph.trim();
        let fences = paragraph.matches("```").count();
        let usable = !fenced && fences == 0;
        fenced ^= fences % 2 == 1;
        usable
            && first.starts_with(|letter: char| letter.is_alphanumeric() || letter == '*' || letter == '`')
            && first.contains(' ')
            && first.len() > 30
            && !first.contains("===")
            && !first.contains("---")
            && !first.contains("://img")
    });
    let paragraph = paragraphs.next()?;
    first_sentence(&paragraph.replace("**", "").replace(['`', '\r'], ""))
}
