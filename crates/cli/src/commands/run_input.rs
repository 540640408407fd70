//! The request of `sandyard run`: its options. What it runs is in `run_source`, its files are in `run_files`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use sandyard_api::{GitBody, JobKind, RequestedLimits, ScheduleBody, TaskBudget};
use sandyard_server::app::egress_preset_names;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use super::run_files::RunFiles;
use super::run_source::{RunSource, SourceWords};
use crate::config::Surroundings;
use crate::errors::CommandError;

/// Default egress of a task.
const PACKAGES: &str = "packages";

/// Arguments that describe the job.
#[derive(Debug, Default, Args)]
pub(crate) struct RunInput {
    #[arg(long, short, value_name = "KIND", value_parser = parse_kind, help = kind_help())]
    kind: Option<JobKind>,
    /// Put a local file into the workspace, as DEST or under its own name; may be given several times. Alone, without anything
    /// else to run, the file is the script; - is standard input
    #[arg(long, short, value_name = "PATH[:DEST]")]
    file: Vec<String>,
    /// Put the files of a local folder into the workspace, without what .gitignore names
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
    /// Set a variable in the sandbox; without a value it is copied from this environment
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    #[arg(long, short, value_name = "NAME=NUMBER", help = limit_help())]
    limit: Vec<String>,
    /// The weakest isolation to accept: any, container, gvisor, vm, or a driver's name
    #[arg(long, value_name = "FLOOR")]
    isolation: Option<String>,
    /// The image of the sandbox: base, full or dev [default: full where it is needed or there]
    #[arg(long, value_name = "FLAVOUR")]
    flavour: Option<String>,
    #[arg(long, value_name = "HOST[:PORT]|NAME", help = egress_help())]
    egress: Vec<String>,
    /// Clone a repository into the workspace first; --egress must allow its host
    #[arg(long, value_name = "URL")]
    git: Option<String>,
    /// The branch, tag or commit of the repository
    #[arg(long = "ref", value_name = "REF", requires = "git")]
    reference: Option<String>,
    /// Allow no connections
    #[arg(long, conflicts_with = "egress")]
    offline: bool,
    /// The model of a task [env: SANDYARD_MODEL]
    #[arg(long, value_name = "SPEC")]
    model: Option<String>,
    #[arg(long, short, value_name = "NAME=NUMBER", help = budget_help())]
    budget: Vec<String>,
    /// How long a question of a task waits for an answer [default: a day]
    #[arg(long, value_name = "SECONDS")]
    ask_timeout_s: Option<u64>,
    /// Keep the sandbox after the job ended
    #[arg(long)]
    keep: bool,
    /// A task in words, the path of a script, code if there is a --kind, or - for code from standard input
    #[arg(value_name = "TASK|SCRIPT|CODE|-")]
    text: Vec<String>,
    /// Arguments of the script or code; with --kind and nothing else, the code itself
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

impl RunInput {
    /// Returns the input of a task with default options.
    pub(super) fn task(text: &str, model: &str) -> Self {
        Self { text: vec![text.to_owned()], model: Some(model.to_owned()), ..Self::default() }
    }

    /// Returns the model of the command line.
    pub(super) fn model(&self) -> Option<&String> {
        self.model.as_ref()
    }

    /// True if the words look like a task. Reads nothing, so it may be wrong about a script.
    pub(super) fn looks_like_task(&self) -> bool {
        let words = match self.text.as_slice() {
            [] => false,
            [word] => word != "-" && !Path::new(word).is_file(),
            _ => true,
        };
        self.kind.map_or(words, |kind| kind == JobKind::Task)
    }

    /// Returns the body of the request to schedule the job.
    pub(super) fn body(
        &self,
        source: RunSource,
        files: RunFiles,
        surroundings: &Surroundings,
    ) -> Result<ScheduleBody, CommandError> {
        let egress = self.egress(source.kind);
        let RunSource { kind, text } = source;
        let (task, code) = match kind {
            JobKind::Task => (text, None),
            _ => (None, text),
        };
        let model = self.model.clone().or_else(|| surroundings.get("SANDYARD_MODEL").map(str::to_owned));
        Ok(ScheduleBody {
            kind: (kind != JobKind::Task).then_some(kind),
            model: model.filter(|_| task.is_some()),
            task,
            code,
            files: files.into_bodies(),
            name: self.name.clone(),
            env: environment(&self.env, surroundings)?,
            limits: limits(&self.limit)?,
            isolation: self.isolation.clone(),
            flavour: self.flavour.clone(),
            egress,
            git: self.git.clone().map(|url| GitBody { url, reference: self.reference.clone() }),
            keep: self.keep.then_some(true),
            budget: budget(&self.budget)?,
            ask_timeout_s: self.ask_timeout_s,
            ..ScheduleBody::default()
        })
    }

    /// Returns the allowed hosts. A task may reach package registries by default: one that can't install anything is of little use.
    fn egress(&self, kind: JobKind) -> Vec<String> {
        if self.egress.is_empty() && kind == JobKind::Task && !self.offline {
            return vec![PACKAGES.to_owned()];
        }
        self.egress.clone()
    }

    /// Returns what to run. Reads the script, or standard input.
    pub(super) fn source(&self) -> Result<RunSource, CommandError> {
        let file = match self.file.as_slice() {
            [file] => Some(Path::new(file)),
            _ => None,
        };
        let (words, arguments) = (self.text.as_slice(), self.arguments.as_slice());
        SourceWords { kind: self.kind, words, arguments, file }.read()
    }

    /// Returns the files that go with the job. A single `--file` beside nothing else to run is the script.
    pub(super) fn files(&self) -> Result<RunFiles, CommandError> {
        let is_session = self.kind == Some(JobKind::Session);
        let only_script = self.file.len() == 1 && self.text.is_empty() && !is_session;
        let files = if only_script { &[] } else { self.file.as_slice() };
        RunFiles::read(files, self.dir.as_deref())
    }
}

// Help texts that list names take them from the contract, so that a new kind or limit shows up by itself.

fn kind_help() -> String {
    let kinds = alternatives(&JobKind::ALL.map(JobKind::as_str));
    format!("Kind of the job: {kinds} [default: by the script's name, else task]")
}

fn egress_help() -> String {
    let names: Vec<_> = egress_preset_names().filter(|name| *name != PACKAGES).collect();
    format!(
        "Allow connections to a host, or to those of a name: {}, or {PACKAGES} for all of them but models; may be given several \
         times [default: {PACKAGES} for a task, nothing for code]",
        names.join(", ")
    )
}

fn limit_help() -> String {
    format!("Limit the job: {}", ScheduleBody::limit_names().join(", "))
}

fn budget_help() -> String {
    let names = alternatives(&ScheduleBody::budget_names());
    format!("Limit what a task may spend: {names}; a task that has used it up asks")
}

fn parse_kind(name: &str) -> Result<JobKind, String> {
    JobKind::parse(name).map_err(|error| match error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message,
    })
}

fn environment(
    given: &[String],
    surroundings: &Surroundings,
) -> Result<BTreeMap<String, String>, CommandError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match surroundings.variables.get(text) {
            Some(value) => Ok((text.clone(), value.clone())),
            None => Err(CommandError::usage(format!("the variable {text} is not set here"))),
        },
    };
    given.iter().map(pair).collect()
}

fn limits(given: &[String]) -> Result<Option<RequestedLimits>, CommandError> {
    named_numbers(given, "limit", &ScheduleBody::limit_names())
}

/// Parses one limit of a task's budget, as `NAME=NUMBER`.
pub(super) fn budget(given: &[String]) -> Result<Option<TaskBudget>, CommandError> {
    named_numbers(given, "budget", &ScheduleBody::budget_names())
}

/// Reads `NAME=NUMBER` arguments into the members of a request; `None` without arguments.
fn named_numbers<T: DeserializeOwned>(
    given: &[String],
    noun: &str,
    names: &[&str],
) -> Result<Option<T>, CommandError> {
    let mut members = Map::new();
    let wrong = |text: &str| {
        let hint = format!("write NAME=NUMBER with {}", alternatives(names));
        CommandError::usage_with_hint(format!("`{text}` is no {noun}"), hint)
    };
    for text in given {
        let (name, number) = text.split_once('=').ok_or_else(|| wrong(text))?;
        let number = read_number(number).filter(|_| names.contains(&name)).ok_or_else(|| wrong(text))?;
        members.insert(name.to_owned(), number);
        // Read after each, so that a fraction for a whole number is reported with its own argument.
        T::deserialize(Value::Object(members.clone())).map_err(|_| wrong(text))?;
    }
    let read = T::deserialize(Value::Object(members)).map_err(|_| wrong(""))?;
    Ok((!given.is_empty()).then_some(read))
}

fn read_number(text: &str) -> Option<Value> {
    let whole = text.parse::<u64>().map(Value::from).ok();
    whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number))
}

/// Returns words as `a, b or c`.
pub(super) fn alternatives(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        input: RunInput,
    }

    fn body(words: &[&str]) -> Result<serde_json::Value, CommandError> {
        let line = Line::try_parse_from([&["run"], words].concat()).unwrap();
        let variables = [("HERE".to_owned(), "1".to_owned())].into();
        let surroundings = Surroundings { variables, root: true };
        let body = line.input.body(line.input.source()?, line.input.files()?, &surroundings)?;
        Ok(serde_json::to_value(body).unwrap())
    }

    #[test]
    fn words_are_a_task_and_a_kind_makes_them_code() {
        assert_eq!(
            body(&["build", "me", "an", "app"]).unwrap(),
            serde_json::json!({"task": "build me an app", "egress": ["packages"]})
        );
        assert_eq!(body(&["--offline", "build"]).unwrap(), serde_json::json!({"task": "build"}));
        assert_eq!(
            body(&["--kind", "shell", "--", "echo", "-n", "hi"]).unwrap(),
            serde_json::json!({"kind": "shell", "code": "echo -n hi"})
        );
        assert_eq!(body(&["--kind", "session"]).unwrap(), serde_json::json!({"kind": "session"}));
    }

    #[test]
    fn the_name_of_a_file_tells_its_kind() {
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("x.sh");
        std::fs::write(&script, "echo hi\n").unwrap();
        let sent = body(&["--file", script.to_str().unwrap()]).unwrap();
        assert_eq!(sent, serde_json::json!({"kind": "shell", "code": "echo hi\n"}));
        let sent = body(&["-k", "shell", "--file", script.to_str().unwrap(), "bash x.sh"]).unwrap();
        assert_eq!(sent["files"], serde_json::json!({"x.sh": "echo hi\n"}));
        assert_eq!(sent["code"], "bash x.sh");
    }

    #[test]
    fn a_task_has_a_budget_and_a_model() {
        let sent =
            body(&["--offline", "--model", "ollama/a", "-b", "steps=5", "-b", "usd=0.5", "do it"]).unwrap();
        let budget = serde_json::json!({"steps": 5, "tokens": null, "usd": 0.5, "on_breach": "ask"});
        assert_eq!(sent, serde_json::json!({"task": "do it", "model": "ollama/a", "budget": budget}));
    }

    #[test]
    fn limits_and_variables_are_read() {
        let sent = body(&[
            "-k",
            "shell",
            "-e",
            "HERE",
            "-e",
            "A=b=c",
            "-l",
            "cpus=0.5",
            "-l",
            "memory_mib=64",
            "true",
        ]);
        let sent = sent.unwrap();
        assert_eq!(sent["env"], serde_json::json!({"HERE": "1", "A": "b=c"}));
        assert_eq!(
            (sent["limits"]["cpus"].as_f64(), sent["limits"]["memory_mib"].as_u64()),
            (Some(0.5), Some(64))
        );
    }

    #[test]
    fn slips_are_refused_with_a_hint() {
        for words in [
            &["-k", "shell"][..],
            &["-k", "shell", "-l", "memory=64", "true"],
            &["-k", "shell", "-l", "pids=many", "true"],
            &["-k", "shell", "-e", "ABSENT", "true"],
            &["-b", "euro=1", "do it"],
            &["-b", "steps=many", "do it"],
            &["-k", "session", "code"],
        ] {
            assert!(matches!(body(words), Err(CommandError::Usage { .. })), "{words:?}");
        }
    }
}
