//! What `sandyard run` runs: words are a task, the path of a file is a script, `-` and piped input are code.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use sandyard_api::{JobKind, Language, bounds};

use super::run_arguments::{with_arguments, without_interpreter};
use crate::errors::CommandError;

/// The work of a job, as the command line describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunSource {
    pub(super) kind: JobKind,
    /// The task or the code; `None` for a session.
    pub(super) text: Option<String>,
}

/// The parts of the command line that say what to run.
#[derive(Debug, Default)]
pub(super) struct SourceWords<'a> {
    /// The kind that was named.
    pub(super) kind: Option<JobKind>,
    /// Words before `--`.
    pub(super) words: &'a [String],
    /// Words after `--`.
    pub(super) arguments: &'a [String],
    /// A single `--file`, which is the script if nothing else is.
    pub(super) file: Option<&'a Path>,
}

impl SourceWords<'_> {
    /// Returns what to run. Reads the script, or standard input.
    pub(super) fn read(&self) -> Result<RunSource, CommandError> {
        if self.kind == Some(JobKind::Session) {
            return match (self.words, self.arguments) {
                ([], []) => Ok(RunSource { kind: JobKind::Session, text: None }),
                _ => Err(CommandError::usage("a session has no code; use `sandyard shell` on it")),
            };
        }
        match self.words {
            [dash] if dash == "-" => self.code(stdin()?, None),
            [path] if self.kind != Some(JobKind::Task) && Path::new(path).is_file() => {
                self.script(Path::new(path))
            }
            [] => self.without_words(),
            words => {
                let text = words.join(" ");
                match self.kind {
                    None | Some(JobKind::Task) => self.task(text),
                    Some(_) => self.code(text, None),
                }
            }
        }
    }

    fn without_words(&self) -> Result<RunSource, CommandError> {
        match (self.file, self.arguments, self.kind) {
            (Some(path), _, _) if path == Path::new("-") => self.code(stdin()?, None),
            (Some(path), _, _) => self.script(path),
            // As after `env` or `sudo`: what follows `--` is the command itself.
            (None, [_, ..], Some(kind)) if kind != JobKind::Task => {
                Ok(RunSource { kind, text: Some(self.arguments.join(" ")) })
            }
            (None, [], _) if !io::stdin().is_terminal() => self.code(stdin()?, None),
            _ => Err(nothing()),
        }
    }

    fn task(&self, text: String) -> Result<RunSource, CommandError> {
        if !self.arguments.is_empty() {
            return Err(CommandError::usage("a task takes no arguments after `--`"));
        }
        Ok(RunSource { kind: JobKind::Task, text: Some(text) })
    }

    fn script(&self, path: &Path) -> Result<RunSource, CommandError> {
        let text = read_text(path)?;
        let by_name = path.extension().and_then(|name| name.to_str()).and_then(kind_of_extension);
        if self.kind.or(by_name).or_else(|| kind_of_shebang(&text)).is_none() {
            return Err(CommandError::usage_with_hint(
                format!("the name of `{}` does not tell what it is", path.display()),
                "name the kind: `--kind shell`, `--kind python` or `--kind typescript`; a task is more than one word",
            ));
        }
        self.code(text, by_name)
    }

    /// Returns code of the kind that was named, or that its file or first line tells; else a shell script.
    fn code(&self, text: String, by_name: Option<JobKind>) -> Result<RunSource, CommandError> {
        if text.trim().is_empty() {
            return Err(nothing());
        }
        let kind = self.kind.or(by_name).or_else(|| kind_of_shebang(&text)).unwrap_or(JobKind::Shell);
        if kind == JobKind::Task {
            return self.task(text);
        }
        let text = without_interpreter(kind, text);
        Ok(RunSource { kind, text: Some(with_arguments(kind, text, self.arguments)?) })
    }
}

fn nothing() -> CommandError {
    CommandError::usage_with_hint(
        "there is nothing to run",
        "write a task in words, the path of a script, or code with --kind; `sandyard run --help` has examples",
    )
}

/// Reads all of standard input, up to the longest code that a server takes.
fn stdin() -> Result<String, CommandError> {
    let mut text = String::new();
    let limit = bounds::CODE_BYTES as u64 + 1;
    io::stdin().lock().take(limit).read_to_string(&mut text)?;
    Ok(text)
}

fn read_text(path: &Path) -> Result<String, CommandError> {
    std::fs::read_to_string(path).map_err(CommandError::file("read", path))
}

fn kind_of_extension(extension: &str) -> Option<JobKind> {
    let language = Language::of_extension(extension)?;
    JobKind::ALL.into_iter().find(|kind| kind.language() == Some(language))
}

/// Returns the kind of a script by the interpreter that its first line names.
fn kind_of_shebang(text: &str) -> Option<JobKind> {
    let line = text.lines().next()?.strip_prefix("#!")?;
    let program = line.split_whitespace().find(|word| !word.ends_with("/env") && !word.starts_with('-'))?;
    let name = PathBuf::from(program).file_name()?.to_str()?.to_owned();
    match name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.') {
        "sh" | "bash" | "dash" => Some(JobKind::Shell),
        "python" => Some(JobKind::Python),
        "deno" | "ts-node" | "tsx" => Some(JobKind::Typescript),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn read(
        kind: Option<JobKind>,
        words: &[&str],
        arguments: &[&str],
    ) -> Result<(JobKind, String), CommandError> {
        let (words, arguments) = (owned(words), owned(arguments));
        let source = SourceWords { kind, words: &words, arguments: &arguments, file: None }.read()?;
        Ok((source.kind, source.text.unwrap_or_default()))
    }

    #[test]
    fn words_are_a_task_and_a_kind_makes_them_code() {
        assert_eq!(read(None, &["build", "it"], &[]).unwrap(), (JobKind::Task, "build it".into()));
        let shell = Some(JobKind::Shell);
        assert_eq!(read(shell, &["echo", "hi"], &[]).unwrap(), (JobKind::Shell, "echo hi".into()));
        assert_eq!(read(shell, &[], &["echo", "-n", "hi"]).unwrap(), (JobKind::Shell, "echo -n hi".into()));
        assert!(read(None, &["build", "it"], &["now"]).is_err());
    }

    #[test]
    fn a_path_is_a_script_of_the_kind_that_its_name_or_first_line_tells() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        for (path, kind) in [
            (file("a.py", "print(1)"), JobKind::Python),
            (file("a.sh", "true"), JobKind::Shell),
            (file("b", "#!/usr/bin/env python3.12\n"), JobKind::Python),
            (file("c", "#!/usr/bin/env -S deno run\n"), JobKind::Typescript),
            (file("d", "#!/bin/sh -e\n"), JobKind::Shell),
        ] {
            assert_eq!(read(None, &[&path], &[]).unwrap().0, kind, "{path}");
        }
        assert!(read(None, &[&file("README", "words")], &[]).is_err());
        let script = file("e.sh", "echo $1\n");
        let text = read(None, &[&script], &["a b", "it's"]).unwrap().1;
        assert_eq!(text, "set -- 'a b' 'it'\\''s'; echo $1\n");
        let script = file("f.ts", "#!/usr/bin/env -S deno run\n");
        assert_eq!(read(None, &[&script], &[]).unwrap().1, "///usr/bin/env -S deno run\n");
        assert!(read(Some(JobKind::Gui), &["[]"], &["x"]).is_err());
    }
}
