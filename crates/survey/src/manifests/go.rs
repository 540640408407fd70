//! `go.mod`.

use sandyard_explain::facts::{CommandFact, CommandPurpose, ManifestFact};

use crate::manifests::TreeManifests;

pub(super) fn go_mod(manifests: &mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact) {
    let mut requires = false;
    for line in text.lines().map(str::trim) {
        if let Some(module) = line.strip_prefix("module ") {
            let module = module.split("//").next().unwrap_or_default().trim().trim_matches('"');
            fact.name = Some(module.to_owned());
            manifests.go_modules.push((module.to_owned(), folder.to_owned()));
        }
        let single = line.strip_prefix("require ").filter(|rest| !rest.starts_with('('));
        let listed = Some(line).filter(|line| requires && *line != ")");
        if let Some(name) = single
            .or(listed)
            .filter(|line| !line.contains("// indirect"))
            .and_then(|line| line.split_whitespace().next())
        {
            fact.dependencies.push(name.to_owned());
        }
        requires = (requires || line.starts_with("require (")) && line != ")";
    }
    let command = |purpose, command: &str| CommandFact { purpose, command: command.to_owned() };
    fact.commands = vec![
        command(CommandPurpose::Build, "go build ./..."),
        command(CommandPurpose::Test, "go test ./..."),
    ];
    fact.dependencies.retain(|name| name != "require" && name != "(");
}
