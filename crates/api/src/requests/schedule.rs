//! `POST /schedule`: what may be asked for, as sent ([`ScheduleBody`]) and as understood ([`ScheduleRequest`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::bounds::{self, CODE_BYTES};
use super::nearest::nearest;
use super::object::{Object, invalid, missing};
use super::schedule_members as members;
use crate::{ApiError, ErrorCode};

/// What kind of work a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Words for the agent.
    Task,
    /// Python code.
    Python,
    /// TypeScript code.
    Typescript,
    /// A shell script.
    Shell,
    /// Actions on a desktop.
    Gui,
    /// An open sandbox for interactive use.
    Session,
}

impl JobKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Task, Self::Python, Self::Typescript, Self::Shell, Self::Gui, Self::Session];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Python => "python",
            Self::Typescript => "typescript",
            Self::Shell => "shell",
            Self::Gui => "gui",
            Self::Session => "session",
        }
    }

    /// The kind of that name; otherwise an error that names the nearest.
    pub fn parse(name: &str) -> Result<Self, ApiError> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            let error = ApiError::new(ErrorCode::UnknownKind, format!("there is no kind `{shown}`"));
            let names = Self::ALL.map(Self::as_str);
            match nearest(name, &names) {
                Some(meant) => error.with_hint(format!("did you mean `{meant}`?")),
                None => error.with_hint(format!("known kinds: {}", names.join(", "))),
            }
        })
    }
}

/// The JSON body of `POST /schedule`, as a client writes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ScheduleBody {
    /// Words for the agent. `prompt` is another name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The same as `task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What `code` is, or `session`. Not needed with `task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<JobKind>,
    /// What to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Files to begin with: text, or `{"base64": "…"}`, by path in the workspace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileBody>,
    /// Environment of everything that runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The model for a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The weakest acceptable isolation: `any`, `container`, `gvisor`, `vm` or a driver's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "any")]
    pub isolation: Option<String>,
    /// How much it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsRequest>,
    /// How much an agent may spend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Hosts it may reach: `host[:port]`, `*.host`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<String>,
    /// Whether the sandbox stays up after the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<bool>,
    /// How long a question waits for its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_timeout_s: Option<u64>,
    /// What becomes of a question that nobody answers; the job ends if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_silence: Option<OnSilence>,
    /// A repository to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitBody>,
}

/// A file of a request: text, or bytes as base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum FileBody {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes {
        /// Standard base64 with padding.
        base64: String,
    },
}

/// A repository of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct GitBody {
    /// Where it is.
    pub url: String,
    /// Which branch, tag or commit.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// Limits as asked for; what is absent comes from the server's configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitsRequest {
    /// Processors, in parts of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Writable disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mib: Option<u64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Wall-clock time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// Time without output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<u64>,
}

/// What an agent may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// Answers of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// What becomes of a job that has used it up; it asks if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_breach: Option<OnBreach>,
}

/// What becomes of a job whose budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBreach {
    /// It waits and asks.
    Ask,
    /// It ends, its work kept.
    End,
}

/// What becomes of a question that nobody answers within `ask_timeout_s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnSilence {
    /// The job ends, its work kept.
    End,
    /// It goes on as it thinks best. A budget that is used up ends it all the same.
    GoOn,
}

/// A request to schedule, understood: every value is within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleRequest {
    /// What kind of work.
    pub kind: JobKind,
    /// The task or the code; empty for a session.
    pub input: String,
    /// A name for people.
    pub name: Option<String>,
    /// Files to begin with, by path.
    pub files: Vec<InputFile>,
    /// Environment of everything that runs.
    pub env: BTreeMap<String, String>,
    /// The model for a task.
    pub model: Option<String>,
    /// The weakest acceptable isolation.
    pub isolation: IsolationFloor,
    /// How much it may use.
    pub limits: LimitsRequest,
    /// How much an agent may spend.
    pub budget: Budget,
    /// Hosts it may reach.
    pub egress: Vec<String>,
    /// Whether the sandbox stays up after the end.
    pub keep: bool,
    /// How long a question waits for its answer.
    pub ask_timeout_s: Option<u64>,
    /// What becomes of a question that nobody answers.
    pub on_silence: OnSilence,
    /// A repository to start from.
    pub git: Option<GitSource>,
}

/// A file to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Relative to the workspace.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A repository to start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSource {
    /// An `https` address.
    pub url: String,
    /// Which branch, tag or commit.
    pub reference: Option<String>,
}

/// The weakest acceptable isolation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IsolationFloor {
    /// Whatever the machine has.
    #[default]
    Any,
    /// At least a container.
    Container,
    /// At least a kernel in user space.
    Gvisor,
    /// A kernel of its own.
    Vm,
    /// Exactly this driver.
    Driver(String),
}

const MEMBERS: [&str; 16] = [
    "task",
    "prompt",
    "kind",
    "code",
    "name",
    "files",
    "env",
    "model",
    "isolation",
    "limits",
    "budget",
    "egress",
    "keep",
    "ask_timeout_s",
    "on_silence",
    "git",
];

impl ScheduleRequest {
    /// A task in plain words, as `text/plain` gives it.
    pub fn from_text(text: &str) -> Result<Self, ApiError> {
        let body = Value::Object([("task".to_owned(), Value::String(text.to_owned()))].into_iter().collect());
        Self::from_json(&body)
    }

    /// A request as JSON gives it.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        let body = Object::root(body)?;
        body.only(&MEMBERS)?;
        let (kind, input) = work(&body)?;
        Ok(Self {
            kind,
            input,
            name: members::name(&body)?,
            files: members::files(&body)?,
            env: members::env(&body)?,
            model: members::model(&body)?,
            isolation: members::isolation(&body)?,
            limits: members::limits(&body)?,
            budget: members::budget(&body)?,
            egress: members::egress(&body)?,
            keep: body.boolean("keep")?.unwrap_or(false),
            ask_timeout_s: body.whole("ask_timeout_s", bounds::TIMEOUT_S)?,
            on_silence: members::on_silence(&body)?,
            git: members::git(&body)?,
        })
    }
}

/// The kind of work and its text, from `task`, `prompt`, `kind` and `code`.
fn work(body: &Object<'_>) -> Result<(JobKind, String), ApiError> {
    let kind = body.text("kind")?.map(JobKind::parse).transpose()?;
    let code = body.text("code")?;
    let task = match (body.text("task")?, body.text("prompt")?) {
        (Some(_), Some(_)) => return Err(conflicting("`task` and `prompt` mean the same; give one of them")),
        (task, prompt) => task.or(prompt),
    };
    match (kind, task, code) {
        (None | Some(JobKind::Task), Some(task), None) => Ok((JobKind::Task, task_text(task)?)),
        (_, Some(_), Some(_)) => Err(conflicting("give either `task` or `code`, not both")),
        (Some(kind), Some(_), None) => {
            Err(conflicting(&format!("a job of kind `{}` takes no `task`", kind.as_str())))
        }
        (Some(JobKind::Session), None, None) => Ok((JobKind::Session, String::new())),
        (Some(JobKind::Session), None, Some(_)) => Err(conflicting("a session takes no `code`")
            .with_hint("run commands in it with POST /jobs/{id}/shell, or use kind `shell`")),
        (Some(JobKind::Task), None, Some(_)) => Err(conflicting("a task takes `task`, not `code`")),
        (Some(JobKind::Task), None, None) => Err(missing("task")),
        (Some(kind), None, Some(code)) => Ok((kind, code_text(code)?)),
        (Some(_), None, None) => Err(missing("code")),
        (None, None, Some(_)) => {
            Err(missing("kind").with_hint("say what the code is, for example \"kind\": \"shell\""))
        }
        (None, None, None) => {
            Err(ApiError::new(ErrorCode::MissingMember, "nothing to do: neither `task` nor `kind`")
                .with_hint(r#"for example {"kind": "shell", "code": "echo hello"} or {"kind": "session"}"#))
        }
    }
}

fn task_text(task: &str) -> Result<String, ApiError> {
    if task.trim().is_empty() {
        return Err(ApiError::new(ErrorCode::EmptyTask, "the task is empty"));
    }
    bounded("task", task, bounds::TASK_BYTES)
}

fn code_text(code: &str) -> Result<String, ApiError> {
    if code.trim().is_empty() {
        return Err(ApiError::new(ErrorCode::EmptyCode, "`code` is empty")
            .with_hint("an open sandbox without code is {\"kind\": \"session\"}"));
    }
    bounded("code", code, CODE_BYTES)
}

fn bounded(path: &str, text: &str, most: usize) -> Result<String, ApiError> {
    if text.len() > most {
        return Err(invalid(path, &format!("must be at most {most} bytes")));
    }
    Ok(text.to_owned())
}

fn conflicting(message: &str) -> ApiError {
    ApiError::new(ErrorCode::ConflictingMembers, message)
}
