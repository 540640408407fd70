//! Makefiles, justfiles and CMake.

use sandyard_explain::facts::{CommandFact, CommandPurpose, ManifestFact};

use crate::manifests::TreeManifests;

/// Targets whose purpose their name tells.
const PURPOSES: &[(&str, CommandPurpose)] = &[
    ("install", CommandPurpose::Install),
    ("setup", CommandPurpose::Install),
    ("build", CommandPurpose::Build),
    ("all", CommandPurpose::Build),
    ("run", CommandPurpose::Run),
    ("start", CommandPurpose::Run),
    ("serve", CommandPurpose::Run),
    ("dev", CommandPurpose::Run),
    ("test", CommandPurpose::Test),
    ("check", CommandPurpose::Check),
    ("lint", CommandPurpose::Check),
];

fn targets(program: &str, folder: &str, text: &str, fact: &mut ManifestFact) {
    if !folder.is_empty() {
        return;
    }
    for line in text.lines().filter(|line| !line.starts_with([' ', '\t', '#', '.'])) {
        let Some((names, rest)) = line.split_once(':') else { continue };
        if rest.starts_with('=') {
            continue;
        }
        for name in names.split_whitespace() {
            let purpose = PURPOSES.iter().find(|(known, _)| *known == name);
            fact.commands.extend(
                purpose.map(|(_, purpose)| CommandFact {
                    purpose: *purpose,
                    command: format!("{program} {name}"),
                }),
            );
        }
    }
}

pub(super) fn makefile(_: &mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact) {
    targets("make", folder, text, fact);
}

pub(super) fn justfile(_: &mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact) {
    targets("just", folder, text, fact);
}

pub(super) fn cmake(_: &mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact) {
    let project = text
        .lines()
        .map(str::trim)
        .find_map(|line| line.to_ascii_lowercase().starts_with("project(").then(|| &line[8..]));
    fact.name = project.map(|rest| {
        rest.chars().take_while(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
    });
    if folder.is_empty() {
        let command = "cmake -B build && cmake --build build".to_owned();
        fact.commands.push(CommandFact { purpose: CommandPurpose::Build, command });
    }
}
