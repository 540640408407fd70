//! `Cargo.toml`.

use sandyard_explain::facts::{CommandFact, CommandPurpose, ManifestFact};
use toml::{Table, Value};

use crate::manifests::TreeManifests;
use crate::manifests::packages::RustPackage;

pub(super) fn cargo(manifests: &mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact) {
    let Ok(table) = text.parse::<Table>() else { return };
    let get = |section: &str, key: &str| {
        table.get(section).and_then(|section| section.get(key)).and_then(Value::as_str).map(str::to_owned)
    };
    fact.name = get("package", "name");
    fact.description = get("package", "description");
    let dependencies = table.get("dependencies").and_then(Value::as_table);
    fact.dependencies = dependencies.into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let command = |purpose, command: &str| CommandFact { purpose, command: command.to_owned() };
    if folder.is_empty() {
        fact.commands =
            vec![command(CommandPurpose::Build, "cargo build"), command(CommandPurpose::Test, "cargo test")];
    }
    let Some(name) = &fact.name else { return };
    let library = get("lib", "name").unwrap_or_else(|| name.replace('-', "_"));
    let path = |path: &str| format!("{folder}{}", path.trim_start_matches("./"));
    let root = get("lib", "path").unwrap_or_else(|| "src/lib.rs".to_owned());
    let mut others = Vec::new();
    for section in ["bin", "test", "bench", "example"] {
        for target in table.get(section).and_then(Value::as_array).into_iter().flatten() {
            others.extend(target.get("path").and_then(Value::as_str).map(path));
        }
    }
    manifests.rust_packages.push(RustPackage { library, root: Some(path(&root)), others });
}
