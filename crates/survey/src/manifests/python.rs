//! `pyproject.toml`, `setup.py`, `setup.cfg`, `requirements.txt` and `tox.ini`.

use sandyard_explain::facts::{CommandFact, CommandPurpose, ManifestFact};
use toml::{Table, Value};

use crate::manifests::{DeclaredCommand, TreeManifests};

pub(super) fn pyproject(manifests: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    let Ok(table) = text.parse::<Table>() else { return };
    let project = table.get("project").and_then(Value::as_table);
    let tool = table.get("tool").and_then(Value::as_table);
    let poetry = tool.and_then(|tool| tool.get("poetry")).and_then(Value::as_table);
    let string = |key: &str| {
        let found = project
            .and_then(|project| project.get(key))
            .or_else(|| poetry.and_then(|poetry| poetry.get(key)));
        found.and_then(Value::as_str).map(str::to_owned)
    };
    fact.name = string("name");
    fact.description = string("description");
    let listed = project.and_then(|project| project.get("dependencies")).and_then(Value::as_array);
    fact.dependencies = listed.into_iter().flatten().filter_map(Value::as_str).map(requirement).collect();
    let named = poetry.and_then(|poetry| poetry.get("dependencies")).and_then(Value::as_table);
    fact.dependencies
        .extend(named.into_iter().flatten().map(|(name, _)| name.clone()).filter(|name| name != "python"));
    for source in
        [project.and_then(|project| project.get("scripts")), poetry.and_then(|poetry| poetry.get("scripts"))]
    {
        for (name, target) in source.and_then(Value::as_table).into_iter().flatten() {
            declare(manifests, name, target.as_str().unwrap_or_default());
        }
    }
    if project.is_some() || poetry.is_some() {
        let install = if poetry.is_some() && project.is_none() { "poetry install" } else { "pip install ." };
        fact.commands.push(CommandFact { purpose: CommandPurpose::Install, command: install.to_owned() });
    }
    let uses =
        |name: &str| tool.is_some_and(|tool| tool.contains_key(name)) || text.contains(&format!("\"{name}"));
    if uses("pytest") {
        fact.commands.push(CommandFact { purpose: CommandPurpose::Test, command: "pytest".to_owned() });
    }
    for (name, command) in [("ruff", "ruff check ."), ("mypy", "mypy ."), ("black", "black --check .")] {
        if tool.is_some_and(|tool| tool.contains_key(name)) {
            fact.commands.push(CommandFact { purpose: CommandPurpose::Check, command: command.to_owned() });
        }
    }
}

/// Notes a command whose target is `module:function`.
fn declare(manifests: &mut TreeManifests, name: &str, target: &str) {
    let (module, function) =
        target.split_once(':').map_or((target, None), |(module, function)| (module, Some(function)));
    let module = module.trim();
    if !module.is_empty() && module.chars().all(|letter| letter.is_alphanumeric() || "._".contains(letter)) {
        let function =
            function.map(|function| function.split('[').next().unwrap_or(function).trim().to_owned());
        manifests.commands.push(DeclaredCommand {
            name: name.trim().to_owned(),
            place: module.to_owned(),
            function,
            command: Some(name.trim().to_owned()),
            declared: None,
        });
    }
}

/// The name in a requirement such as `requests[socks]>=2; python_version > "3"`.
fn requirement(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || "-_.".contains(*letter)).collect()
}

pub(super) fn setup_py(manifests: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    fact.name = keyword(text, "name");
    fact.description = keyword(text, "description");
    let scripts =
        text.split_once("console_scripts").map(|(_, rest)| rest.split(']').next().unwrap_or_default());
    for quoted in scripts.into_iter().flat_map(|scripts| scripts.split(['"', '\''])) {
        if let Some((name, target)) = quoted.split_once('=').filter(|(_, target)| target.contains(':')) {
            declare(manifests, name, target);
        }
    }
    fact.commands.push(CommandFact { purpose: CommandPurpose::Install, command: "pip install .".to_owned() });
}

/// The literal that a keyword argument is given.
fn keyword(text: &str, name: &str) -> Option<String> {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('=')))?;
    line.split(['"', '\'']).nth(1).map(str::to_owned)
}

pub(super) fn setup_cfg(manifests: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    let mut section = "";
    let mut scripts = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            section = trimmed;
            scripts = false;
            continue;
        }
        let pair = trimmed.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        match (section, pair) {
            ("[metadata]", Some(("name", value))) => fact.name = Some(value.to_owned()),
            ("[metadata]", Some(("description", value))) => fact.description = Some(value.to_owned()),
            ("[options.entry_points]", Some(("console_scripts", _))) => scripts = true,
            (_, Some((name, target))) if scripts && line.starts_with(char::is_whitespace) => {
                declare(manifests, name, target)
            }
            _ => {}
        }
    }
}

pub(super) fn requirements(_: &mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact) {
    let lines =
        text.lines().map(str::trim).filter(|line| line.starts_with(|letter: char| letter.is_alphanumeric()));
    fact.dependencies = lines.map(requirement).collect();
    let command = format!("pip install -r {folder}requirements.txt");
    fact.commands.push(CommandFact { purpose: CommandPurpose::Install, command });
}

pub(super) fn tox(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    if text.contains("[testenv") || text.contains("[tox]") {
        fact.commands.push(CommandFact { purpose: CommandPurpose::Test, command: "tox".to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_read() {
        let mut manifests = TreeManifests::default();
        let mut fact = ManifestFact::default();
        let text = "[project]\nname = 'shop'\ndescription = 'Sells.'\ndependencies = ['flask>=2; python_version > \"3\"']\n[project.scripts]\nshop = 'shop.cli:main'\n[tool.pytest.ini_options]\n";
        pyproject(&mut manifests, "", text, &mut fact);
        assert_eq!(fact.name.as_deref(), Some("shop"));
        assert_eq!(fact.dependencies, ["flask"]);
        assert_eq!(manifests.commands[0].place, "shop.cli");
        assert_eq!(manifests.commands[0].function.as_deref(), Some("main"));
        assert_eq!(fact.commands.len(), 2);
        setup_py(
            &mut manifests,
            "",
            "setup(\n    name='x',\n    entry_points={'console_scripts': ['y = x.z:run']},\n)",
            &mut fact,
        );
        assert_eq!(manifests.commands[1].name, "y");
        pyproject(&mut manifests, "", "not [ toml", &mut fact);
    }
}
