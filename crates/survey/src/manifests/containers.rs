//! Dockerfiles, compose files, Procfiles and workflows, line by line.

use sandyard_explain::facts::{CommandFact, CommandPurpose, ManifestFact};

use crate::manifests::TreeManifests;
use crate::scan::cut;

pub(super) fn dockerfile(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    for line in text.lines().map(str::trim) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word.to_ascii_uppercase().as_str() {
            "FROM" => fact.services.push(rest.split_whitespace().next().unwrap_or_default().to_owned()),
            "CMD" | "ENTRYPOINT" => {
                let command: String = rest.chars().filter(|letter| !"[]\"".contains(*letter)).collect();
                let command = cut(&command.replace(", ", " ").replace(',', " "), 160);
                fact.commands.push(CommandFact { purpose: CommandPurpose::Run, command });
            }
            _ => {}
        }
    }
}

/// Services and their images.
pub(super) fn compose(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    let mut inside = false;
    let mut indent = None;
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#')) {
        let depth = line.len() - line.trim_start().len();
        if depth == 0 {
            inside = line.starts_with("services:");
            continue;
        }
        let level = *indent.get_or_insert(depth);
        let trimmed = line.trim();
        if inside && depth == level && trimmed.ends_with(':') {
            fact.services.push(trimmed.trim_end_matches(':').to_owned());
        } else if let Some(image) = trimmed.strip_prefix("image:").filter(|_| inside)
            && let Some(last) = fact.services.last_mut()
        {
            *last = format!("{last} ({})", cut(image.trim().trim_matches(['"', '\'']), 60));
        }
    }
    fact.commands.push(CommandFact { purpose: CommandPurpose::Run, command: "docker compose up".to_owned() });
}

pub(super) fn procfile(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    for (_, command) in text.lines().filter_map(|line| line.split_once(':')) {
        fact.commands.push(CommandFact { purpose: CommandPurpose::Run, command: cut(command.trim(), 160) });
    }
}

pub(super) fn workflow(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    let name = text.lines().find_map(|line| line.strip_prefix("name:"));
    fact.name = name.map(|name| cut(name.trim().trim_matches(['"', '\'']), 60));
}

pub(super) fn gitlab(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    let jobs = text.lines().filter(|line| line.ends_with(':') && !line.starts_with([' ', '#', '.']));
    fact.services = jobs.map(|line| line.trim_end_matches(':').to_owned()).collect();
}
