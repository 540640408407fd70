//! `files`: view, write, edit and search in the workspace.

mod change;
mod mismatch;
mod view;

use sandyard_protocol::Edit;
use serde::Deserialize;
use serde_json::{Value, json};

use super::lanes::CallLane;
use super::{Tool, ToolContext, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm, BadArguments};
use crate::keeper::{KeeperClient, ToolError};

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Works on files in /workspace. `action` says what:
- view: shows a text file with line numbers (the number and the tab are not part of the file), a picture, or what is in a folder. `first` and `last` choose lines.
- write: makes a file or replaces all of it with `content`; folders on the way are made.
- edit: replaces `old` by `new`. `old` must be in the file exactly once, with every space as it is there; take in a line before and after if need be. With `edits` several replacements are made, all or none.
- search: finds the plain text `text` in names and contents below `path`.
Prefer edit over write for files that exist. For files outside /workspace use `shell`.",
    parameters,
    lane,
    run: ToolRun::Machine {
        run: |context, arguments| Box::pin(run(context, arguments)),
        after_restart: |_| Box::pin(async { "A file is written whole or not at all: view it to see which.".into() }),
    },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "files",
    members: &[
        ("action", &["command", "operation"]),
        ("path", &["file", "file_path", "filename"]),
        ("first", &["start", "first_line", "start_line"]),
        ("last", &["end", "last_line", "end_line"]),
        ("content", &["file_text", "contents"]),
        ("old", &["old_str", "old_string", "old_text"]),
        ("new", &["new_str", "new_string", "new_text"]),
        ("edits", &[]),
        ("text", &["query", "pattern"]),
    ],
    example: r#"{"action": "edit", "path": "src/app.js", "old": "let a = 1", "new": "let a = 2"}"#,
};

fn parameters() -> Value {
    let edit = json!({
        "type": "object",
        "properties": { "old": { "type": "string" }, "new": { "type": "string" } },
        "required": ["old", "new"],
    });
    json!({
        "type": "object",
        "properties": {
            "action": { "type": "string", "enum": ["view", "write", "edit", "search"] },
            "path": { "type": "string", "description": "Relative to /workspace." },
            "first": { "type": "integer", "minimum": 1, "description": "view: the first line." },
            "last": { "type": "integer", "minimum": 1, "description": "view: the last line." },
            "content": { "type": "string", "description": "write: the whole file." },
            "old": { "type": "string", "description": "edit: text that is there exactly once." },
            "new": { "type": "string", "description": "edit: what takes its place." },
            "edits": { "type": "array", "items": edit, "description": "edit: several at once." },
            "text": { "type": "string", "description": "search: what to find." },
        },
        "required": ["action", "path"],
    })
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct FilesArguments {
    pub(super) action: FilesAction,
    #[serde(default)]
    pub(super) path: String,
    first: Option<u64>,
    last: Option<u64>,
    content: Option<String>,
    old: Option<String>,
    new: Option<String>,
    edits: Option<Vec<Edit>>,
    text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FilesAction {
    #[serde(alias = "read", alias = "list")]
    View,
    #[serde(alias = "create")]
    Write,
    #[serde(alias = "str_replace", alias = "replace")]
    Edit,
    #[serde(alias = "find", alias = "grep")]
    Search,
}

pub(super) fn read(text: &str) -> Result<FilesArguments, BadArguments> {
    let mut arguments: FilesArguments = arguments::read(&FORM, text)?;
    arguments.path = relative(&arguments.path)?;
    Ok(arguments)
}

/// Converts a path to one relative to the workspace, as keeper expects it.
fn relative(path: &str) -> Result<String, BadArguments> {
    let path = path.trim();
    let inside = match path.strip_prefix("/workspace") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ if path.starts_with('/') || path.starts_with('~') => {
            return Err(FORM.refuse(&format!("`{path}` is outside of /workspace; use `shell` for it")));
        }
        _ => path,
    };
    Ok(inside.trim_start_matches("./").trim_end_matches('/').to_owned())
}

/// Writes a file of the workspace for the loop itself.
pub(crate) async fn write_file(keeper: &KeeperClient, path: &str, content: String) -> Result<(), ToolError> {
    change::write(keeper, path, content).await.map(drop)
}

/// Shows a text that is no file with numbered lines, from line `first`.
pub(super) fn numbered(name: &str, text: &str, first: u64) -> ToolOutcome {
    view::numbered(name, text, Some(first), None)
}

fn lane(text: &str) -> CallLane {
    match read(text) {
        Ok(FilesArguments { action: FilesAction::Write | FilesAction::Edit, path, .. }) => {
            CallLane::WritesFile(path)
        }
        _ => CallLane::ReadsFiles,
    }
}

async fn run(context: ToolContext, text: String) -> ToolOutcome {
    let arguments = match read(&text) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let needs = |what: &str| ToolOutcome::from(FORM.refuse(what));
    let FilesArguments { action, path, first, last, content, old, new, edits, text } = arguments;
    let outcome = match action {
        FilesAction::View => view::view(&context.keeper, &path, first, last).await,
        FilesAction::Search => match text.filter(|text| !text.is_empty()) {
            Some(text) => view::search(&context.keeper, &path, text).await,
            None => return needs("search needs `text`"),
        },
        FilesAction::Write => match content {
            Some(_) if path.is_empty() => return needs("write needs the `path` of a file"),
            Some(content) => change::write(&context.keeper, &path, content).await,
            None => return needs("write needs `content`"),
        },
        FilesAction::Edit => match replacements(old, new, edits) {
            Some(edits) => change::edit(&context.keeper, &path, edits).await,
            None => return needs("edit needs `old` and `new`, or `edits`; `old` is not empty"),
        },
    };
    outcome.unwrap_or_else(ToolOutcome::from)
}

fn replacements(old: Option<String>, new: Option<String>, edits: Option<Vec<Edit>>) -> Option<Vec<Edit>> {
    let one = old.map(|old| Edit { old, new: new.unwrap_or_default() });
    let all: Vec<Edit> = one.into_iter().chain(edits.unwrap_or_default()).collect();
    (!all.is_empty() && all.iter().all(|edit| !edit.old.is_empty())).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_workspace() {
        for (given, path) in [
            ("/workspace", ""),
            ("/workspace/a/b", "a/b"),
            ("./a", "a"),
            ("a/", "a"),
            ("", ""),
            ("workspace", "workspace"),
        ] {
            assert_eq!(relative(given).unwrap(), path, "{given}");
        }
        for outside in ["/etc/passwd", "/workspacex", "~/x", "/"] {
            assert!(relative(outside).unwrap_err().0.contains("outside of /workspace"), "{outside}");
        }
    }

    #[test]
    fn one_replacement_or_several() {
        let edit = |old: &str| Edit { old: old.into(), new: "y".into() };
        assert_eq!(replacements(Some("x".into()), Some("y".into()), None), Some(vec![edit("x")]));
        assert_eq!(replacements(None, None, Some(vec![edit("a"), edit("b")])).unwrap().len(), 2);
        assert_eq!(replacements(None, Some("y".into()), None), None);
        assert_eq!(replacements(Some(String::new()), None, None), None);
    }

    #[test]
    fn actions_are_known_by_the_names_that_models_use() {
        for (name, action) in
            [("view", FilesAction::View), ("create", FilesAction::Write), ("str_replace", FilesAction::Edit)]
        {
            let read = read(&format!(r#"{{"command":"{name}","path":"a","old_str":"x"}}"#)).unwrap();
            assert_eq!(read.action, action);
        }
    }
}
