//! Finds the manifests of a tree and gives each to the reader of its name.

use sandyard_explain::facts::{DeclaredPlace, ManifestFact};

use super::{TreeManifests, cargo, containers, go, java, javascript, make, python};
use crate::files::FileTree;

/// Larger manifests are data.
const MAX_MANIFEST_BYTES: usize = 1 << 20;
/// Commands and names kept of one manifest.
const MAX_ITEMS: usize = 60;

/// Reads one manifest. `folder` is empty or has a slash at its end.
type ManifestReader = fn(&mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact);

const READERS: &[(&str, ManifestReader)] = &[
    ("package.json", javascript::package),
    ("tsconfig.json", javascript::tsconfig),
    ("jsconfig.json", javascript::tsconfig),
    ("deno.json", javascript::deno),
    ("pyproject.toml", python::pyproject),
    ("setup.py", python::setup_py),
    ("setup.cfg", python::setup_cfg),
    ("requirements.txt", python::requirements),
    ("tox.ini", python::tox),
    ("Cargo.toml", cargo::cargo),
    ("go.mod", go::go_mod),
    ("pom.xml", java::pom),
    ("build.gradle", java::gradle),
    ("build.gradle.kts", java::gradle),
    ("Makefile", make::makefile),
    ("justfile", make::justfile),
    ("CMakeLists.txt", make::cmake),
    ("Dockerfile", containers::dockerfile),
    ("Containerfile", containers::dockerfile),
    ("docker-compose.yml", containers::compose),
    ("docker-compose.yaml", containers::compose),
    ("compose.yml", containers::compose),
    ("compose.yaml", containers::compose),
    ("Procfile", containers::procfile),
    (".gitlab-ci.yml", containers::gitlab),
];

/// The first line of a manifest that names the place of a command.
fn declared_place(path: &str, folder: &str, text: &str, place: &str) -> Option<DeclaredPlace> {
    let symbol = place.strip_prefix(folder).unwrap_or(place);
    let line = text.lines().position(|line| line.contains(symbol)).filter(|_| !symbol.is_empty())?;
    Some(DeclaredPlace { path: path.to_owned(), line: line as u32 + 1, symbol: symbol.to_owned() })
}

impl TreeManifests {
    /// Reads all manifests of a tree.
    pub(crate) fn read(tree: &FileTree) -> Self {
        let mut manifests = Self::default();
        for file in tree.files.iter().filter(|file| file.bytes.len() <= MAX_MANIFEST_BYTES) {
            let (folder, name) = match file.path.rsplit_once('/') {
                Some((folder, name)) => (format!("{folder}/"), name),
                None => (String::new(), file.path.as_str()),
            };
            let workflow = file.path.starts_with(".github/workflows/");
            let reader = READERS.iter().find(|(known, _)| *known == name).map(|(_, reader)| *reader);
            let Some(reader) = reader.or(workflow.then_some(containers::workflow as ManifestReader)) else {
                continue;
            };
            let kind = if workflow { "GitHub workflow" } else { name };
            let mut fact =
                ManifestFact { path: file.path.clone(), kind: kind.to_owned(), ..ManifestFact::default() };
            let text = String::from_utf8_lossy(&file.bytes);
            let known = manifests.commands.len();
            reader(&mut manifests, &folder, &text, &mut fact);
            for command in &mut manifests.commands[known..] {
                command.declared = declared_place(&file.path, &folder, &text, &command.place);
            }
            fact.dependencies.sort();
            fact.dependencies.dedup();
            fact.dependencies.truncate(MAX_ITEMS);
            fact.commands.truncate(MAX_ITEMS);
            fact.services.truncate(MAX_ITEMS);
            manifests.facts.push(fact);
        }
        manifests.commands.sort();
        manifests.commands.dedup();
        // Longest module first, so that a nested module wins.
        manifests.go_modules.sort_by(|left, right| right.0.len().cmp(&left.0.len()).then(left.cmp(right)));
        manifests
    }
}
