//! Arguments of a script of `sandyard run`. The API takes code alone, so they become a statement before it.
//!
//! The statement stands on the first line of the code, where it moves no line: tracebacks name the lines of the script.

use std::io;

use sandyard_api::JobKind;

use crate::errors::CommandError;

/// Words that begin a compound statement of Python, before which no other statement may stand on the line.
const COMPOUND: [&str; 9] = ["async", "class", "def", "for", "if", "match", "try", "while", "with"];

/// Gives code its arguments.
pub(super) fn with_arguments(
    kind: JobKind,
    code: String,
    arguments: &[String],
) -> Result<String, CommandError> {
    if arguments.is_empty() {
        return Ok(code);
    }
    // JSON's strings are strings of Python and TypeScript too.
    let list = || serde_json::to_string(arguments).map_err(io::Error::other);
    match kind {
        JobKind::Shell => {
            let quoted: Vec<_> = arguments.iter().map(|word| quote(word)).collect();
            Ok(format!("set -- {}; {code}", quoted.join(" ")))
        }
        JobKind::Python => {
            // A kernel compiles each statement alone, so `from __future__` need not be the first one.
            let separator = if takes_statement(&code) { "; " } else { "\n" };
            Ok(format!("__import__(\"sys\").argv[1:] = {}{separator}{code}", list()?))
        }
        JobKind::Typescript => {
            let list = list()?;
            Ok(format!(
                "Object.defineProperty(Deno, \"args\", {{ value: {list} }}); process.argv.splice(2, Infinity, ...{list}); {code}"
            ))
        }
        JobKind::Task | JobKind::Session | JobKind::Gui => Err(CommandError::usage_with_hint(
            format!("a job of kind `{}` takes no arguments after `--`", kind.as_str()),
            "shell, Python and TypeScript do; to other kinds give values with --env",
        )),
    }
}

/// Makes the first line of a script for an interpreter a comment where it is none: Deno's kernel rejects `#!`.
pub(super) fn without_interpreter(kind: JobKind, code: String) -> String {
    match code.strip_prefix("#!") {
        Some(rest) if kind == JobKind::Typescript => format!("//{rest}"),
        _ => code,
    }
}

/// True if the first line of Python code may follow another statement: it is empty, a comment, or a simple statement. Before a
/// compound statement or a command of IPython there is no room, and such a script moves down by a line.
fn takes_statement(code: &str) -> bool {
    let line = code.lines().next().unwrap_or_default();
    if line.trim().is_empty() || line.starts_with('#') {
        return true;
    }
    let word =
        line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
    !line.starts_with([' ', '\t', '@', '%', '!', '?']) && !COMPOUND.contains(&word)
}

/// Quotes a word for a shell, if it needs that.
pub(super) fn quote(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(kind: JobKind, code: &str) -> String {
        with_arguments(kind, code.to_owned(), &["a \"b".to_owned(), "it's".to_owned()]).unwrap()
    }

    #[test]
    fn no_line_of_a_script_is_moved() {
        let python = "__import__(\"sys\").argv[1:] = [\"a \\\"b\",\"it's\"]";
        for first in
            ["from __future__ import annotations", "#!/usr/bin/env python3", "", "\"\"\"Doc", "fortune = 1"]
        {
            let code = format!("{first}\nprint(1)\n");
            assert_eq!(given(JobKind::Python, &code), format!("{python}; {code}"), "{first}");
        }
        for first in ["def f(): pass", "@decorated", "if True:", "%pip list", "with(open('a')):"] {
            let code = format!("{first}\n");
            assert_eq!(given(JobKind::Python, &code), format!("{python}\n{code}"), "{first}");
        }
        let typescript = given(JobKind::Typescript, "import a from \"b\";\n");
        assert!(typescript.ends_with("...[\"a \\\"b\",\"it's\"]); import a from \"b\";\n"), "{typescript}");
        assert!(
            typescript
                .starts_with("Object.defineProperty(Deno, \"args\", { value: [\"a \\\"b\",\"it's\"] }); ")
        );
        assert_eq!(given(JobKind::Shell, "echo $1\n"), "set -- 'a \"b' 'it'\\''s'; echo $1\n");
    }

    #[test]
    fn code_without_arguments_is_sent_as_it_is_and_other_kinds_take_none() {
        assert_eq!(with_arguments(JobKind::Python, "1".into(), &[]).unwrap(), "1");
        let refused = with_arguments(JobKind::Gui, "[]".into(), &["x".to_owned()]).unwrap_err();
        assert!(refused.hint().unwrap().contains("--env"), "{refused}");
    }

    #[test]
    fn the_line_of_the_interpreter_is_a_comment() {
        let code = "#!/usr/bin/env -S deno run\nlet a = 1;\n".to_owned();
        let sent = without_interpreter(JobKind::Typescript, code.clone());
        assert_eq!(sent, "///usr/bin/env -S deno run\nlet a = 1;\n");
        assert_eq!(without_interpreter(JobKind::Python, code.clone()), code);
    }
}
