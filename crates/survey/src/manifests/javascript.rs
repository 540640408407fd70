//! `package.json`, `tsconfig.json` and `deno.json`.

use sandyard_explain::facts::{CommandFact, CommandPurpose, ManifestFact};
use serde_json::Value;

use crate::manifests::packages::{JavaScriptPackage, PathAliases, clean};
use crate::manifests::{DeclaredCommand, TreeManifests};

pub(super) fn package(manifests: &mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact) {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    let string = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    fact.name = string("name");
    fact.description = string("description");
    fact.dependencies = keys(value.get("dependencies"));
    scripts(&value, fact);
    let main = string("source")
        .or_else(|| string("types").filter(|_| false))
        .or_else(|| export_main(&value))
        .or_else(|| string("module"))
        .or_else(|| string("main"));
    if let Some(name) = &fact.name {
        manifests
            .packages
            .insert(name.clone(), JavaScriptPackage { folder: folder.to_owned(), main: main.clone() });
    }
    let bins: Vec<(String, String)> = match value.get("bin") {
        Some(Value::String(path)) => vec![(fact.name.clone().unwrap_or_default(), path.clone())],
        Some(Value::Object(map)) => {
            map.iter().filter_map(|(name, path)| Some((name.clone(), path.as_str()?.to_owned()))).collect()
        }
        _ => Vec::new(),
    };
    for (name, path) in bins {
        manifests.commands.push(DeclaredCommand {
            command: Some(format!("npx {name}")),
            name,
            place: format!("{folder}{}", path.trim_start_matches("./")),
            function: None,
            declared: None,
        });
    }
}

fn export_main(value: &Value) -> Option<String> {
    let mut present = value.get("exports")?;
    present = present.get(".").unwrap_or(present);
    for _ in 0..4 {
        match present {
            Value::String(path) => return Some(path.clone()),
            Value::Object(map) => {
                present = ["source", "import", "module", "default", "require", "node"]
                    .iter()
                    .find_map(|key| map.get(*key))?
            }
            _ => return None,
        }
    }
    None
}

fn keys(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_object).map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

fn scripts(value: &Value, fact: &mut ManifestFact) {
    let names = keys(value.get("scripts"));
    if !names.is_empty() || value.get("dependencies").is_some() {
        fact.commands
            .push(CommandFact { purpose: CommandPurpose::Install, command: "npm install".to_owned() });
    }
    for name in names {
        let purpose = match name.split(':').next().unwrap_or_default() {
            "start" | "dev" | "serve" | "preview" => CommandPurpose::Run,
            "build" | "compile" => CommandPurpose::Build,
            "test" | "tests" => CommandPurpose::Test,
            "lint" | "check" | "typecheck" | "format" => CommandPurpose::Check,
            _ => continue,
        };
        let command =
            if name == "test" || name == "start" { format!("npm {name}") } else { format!("npm run {name}") };
        fact.commands.push(CommandFact { purpose, command });
    }
}

pub(super) fn deno(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    let Ok(value) = serde_json::from_str::<Value>(&without_comments(text)) else { return };
    fact.name = value.get("name").and_then(Value::as_str).map(str::to_owned);
    for name in keys(value.get("tasks")) {
        let purpose = if name.contains("test") { CommandPurpose::Test } else { CommandPurpose::Run };
        fact.commands.push(CommandFact { purpose, command: format!("deno task {name}") });
    }
}

pub(super) fn tsconfig(manifests: &mut TreeManifests, folder: &str, text: &str, _: &mut ManifestFact) {
    let Ok(value) = serde_json::from_str::<Value>(&without_comments(text)) else { return };
    let Some(options) = value.get("compilerOptions") else { return };
    let base = options.get("baseUrl").and_then(Value::as_str);
    let mut rules = Vec::new();
    for (pattern, targets) in options.get("paths").and_then(Value::as_object).into_iter().flatten() {
        for target in targets.as_array().into_iter().flatten().filter_map(Value::as_str) {
            rules.push((pattern.clone(), target.to_owned()));
        }
    }
    if base.is_none() && rules.is_empty() {
        return;
    }
    manifests.aliases.push(PathAliases {
        folder: folder.to_owned(),
        base: clean(&format!("{folder}{}", base.unwrap_or("."))),
        rules,
        base_is_searched: base.is_some(),
    });
}

/// JSON without the comments and trailing commas that these files may have.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quoted => {
                out.push(letter);
                out.extend(letters.next());
                continue;
            }
            '"' => quoted = !quoted,
            '/' if !quoted && letters.peek() == Some(&'/') => {
                while letters.peek().is_some_and(|next| *next != '\n') {
                    letters.next();
                }
                continue;
            }
            '/' if !quoted && letters.peek() == Some(&'*') => {
                let mut last = ' ';
                for next in letters.by_ref() {
                    if last == '*' && next == '/' {
                        break;
                    }
                    last = next;
                }
                continue;
            }
            '}' | ']' if !quoted => {
                let kept = out.trim_end().strip_suffix(',').map(str::len);
                if let Some(kept) = kept {
                    out.truncate(kept);
                }
            }
            _ => {}
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_go() {
        let text = "{ // x\n \"a\": \"//b\", /* y */ \"c\": [1, 2,], }";
        let value: Value = serde_json::from_str(&without_comments(text)).unwrap();
        assert_eq!(value["a"], "//b");
        assert_eq!(value["c"][1], 2);
    }

    #[test]
    fn aliases_and_packages_become_paths() {
        let mut manifests = TreeManifests::default();
        let mut fact = ManifestFact::default();
        tsconfig(
            &mut manifests,
            "web/",
            r#"{"compilerOptions": {"baseUrl": ".", "paths": {"@/*": ["src/*"]}}}"#,
            &mut fact,
        );
        assert_eq!(manifests.javascript_aliases("web/src/a", "@/x/y"), ["web/src/x/y", "web/@/x/y"]);
        assert!(manifests.javascript_aliases("other", "@/x").is_empty());
        package(
            &mut manifests,
            "lib/",
            r#"{"name": "@s/lib", "main": "./main.js", "bin": "cli.js", "scripts": {"test": "x"}}"#,
            &mut fact,
        );
        assert_eq!(manifests.javascript_package("@s/lib/sub"), ["lib/sub", "lib/src/sub"]);
        assert_eq!(manifests.commands[0].place, "lib/cli.js");
        assert_eq!(fact.commands[1].command, "npm test");
    }
}
