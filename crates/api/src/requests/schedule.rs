//! `POST /schedule`: the body of the request. Its rules are in `schedule_rules`.

use std::collections::BTreeMap;

use sandyard_protocol::{Language, TaskBudget};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::bounds;
use super::file_body::FileBody;
use super::git::GitBody;
use super::reader::{JsonRequest, NumberBounds, read};
use super::refusal::{invalid, missing, unknown_name};
use super::schedule_rules as rules;
use crate::{ApiError, ErrorCode};

/// The kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// A task for the agent, in plain words.
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
    /// Every kind, in the order in which help and hints list them.
    pub const ALL: [Self; 6] =
        [Self::Task, Self::Shell, Self::Python, Self::Typescript, Self::Gui, Self::Session];

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

    /// The language of a job's code; `None` for kinds without code.
    pub fn language(self) -> Option<Language> {
        match self {
            Self::Shell => Some(Language::Bash),
            Self::Python => Some(Language::Python),
            Self::Typescript => Some(Language::Typescript),
            Self::Task | Self::Gui | Self::Session => None,
        }
    }

    /// Returns the kind of that name; otherwise an error that names the nearest.
    pub fn parse(name: &str) -> Result<Self, ApiError> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        kind.ok_or_else(|| unknown_name(ErrorCode::UnknownKind, "kind", name, &Self::ALL.map(Self::as_str)))
    }
}

/// The JSON body of `POST /schedule`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ScheduleBody {
    /// The task for the agent, in plain words. `prompt` is another name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The same as `task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Kind of the `code`, or `session`. Not needed with `task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<JobKind>,
    /// Code to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Files to create first, by path in the workspace: text, or `{"base64": "…"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileBody>,
    /// Environment variables of all processes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Model of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The weakest acceptable isolation: `any`, `container`, `gvisor`, `vm` or a driver's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "any")]
    pub isolation: Option<String>,
    /// Limits of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<RequestedLimits>,
    /// Limits of an agent's spending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<TaskBudget>,
    /// Hosts that the sandbox may reach: `host[:port]`, `*.host`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<String>,
    /// True if the sandbox stays up after the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<bool>,
    /// How long a question waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_timeout_s: Option<u64>,
    /// What happens if nobody answers a question; `end` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_silence: Option<OnSilence>,
    /// A repository to clone into the workspace first; `egress` must allow its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitBody>,
    /// The image of the sandbox: `base`, `full` or `dev`. If not given, the full one where it is needed or there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "dev")]
    pub flavour: Option<String>,
}

/// Requested limits. The configuration of the server provides those that are not given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = LimitsRequest)]
pub struct RequestedLimits {
    /// Number of processors; fractions are allowed. 2 if not given.
    pub cpus: Option<f64>,
    /// Memory of the job. 2048 if not given.
    pub memory_mib: Option<u64>,
    /// Writable disk. 4096 if not given, or less where the host has less.
    pub disk_mib: Option<u64>,
    /// Processes and threads. 1024 if not given.
    pub pids: Option<u64>,
    /// Mebibytes read from disks in a second, and written to them. 256 if not given.
    pub io_mib_s: Option<u64>,
    /// Size of the recording of the desktop; 0 records nothing.
    pub recording_mib: Option<u64>,
    /// Wall-clock time. 3600 if not given.
    pub timeout_s: Option<u64>,
    /// Time without output. No limit if not given.
    pub idle_timeout_s: Option<u64>,
}

/// What happens if nobody answers a question within `ask_timeout_s`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnSilence {
    /// The job ends. Its files are kept.
    #[default]
    End,
    /// The agent continues on its own judgement. An exhausted budget still ends the job.
    GoOn,
}

impl ScheduleBody {
    /// Reads and checks a JSON body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        read(body)
    }

    /// Returns a task from a `text/plain` body.
    pub fn from_text(text: &str) -> Result<Self, ApiError> {
        if text.contains('\0') {
            return Err(invalid("task", "must not contain the character NUL"));
        }
        Self { task: Some(text.to_owned()), ..Self::default() }.checked()
    }

    /// Names of the limits that a request can set.
    pub fn limit_names() -> Vec<&'static str> {
        Self::numbers_below("limits")
    }

    /// Names of the parts of a budget that a request can set.
    pub fn budget_names() -> Vec<&'static str> {
        Self::numbers_below("budget")
    }

    fn numbers_below(parent: &str) -> Vec<&'static str> {
        let paths = Self::NUMBERS.iter().filter_map(|(path, _)| path.split_once('.'));
        paths.filter(|(first, _)| *first == parent).map(|(_, name)| name).collect()
    }

    /// Returns the kind of work and its text: the task, the code, or nothing for a session.
    pub fn work(&self) -> Result<(JobKind, &str), ApiError> {
        let task = match (self.task.as_deref(), self.prompt.as_deref()) {
            (Some(_), Some(_)) => {
                return Err(conflicting("`task` and `prompt` mean the same; give one of them"));
            }
            (task, prompt) => task.or(prompt),
        };
        match (self.kind, task, self.code.as_deref()) {
            (None | Some(JobKind::Task), Some(task), None) => Ok((JobKind::Task, checked_task(task)?)),
            (_, Some(_), Some(_)) => Err(conflicting("give either `task` or `code`, not both")),
            (Some(kind), Some(_), None) => {
                Err(conflicting(&format!("a job of kind `{}` takes no `task`", kind.as_str())))
            }
            (Some(JobKind::Session), None, None) => Ok((JobKind::Session, "")),
            (Some(JobKind::Session), None, Some(_)) => Err(conflicting("a session takes no `code`")
                .with_hint("run commands in it with POST /jobs/{id}/shell, or use kind `shell`")),
            (Some(JobKind::Task), None, Some(_)) => Err(conflicting("a task takes `task`, not `code`")),
            (Some(JobKind::Task), None, None) => Err(missing("task")),
            (Some(kind), None, Some(code)) => Ok((kind, checked_code(code)?)),
            (Some(_), None, None) => Err(missing("code")),
            (None, None, Some(_)) => {
                Err(missing("kind").with_hint("say what the code is, for example \"kind\": \"shell\""))
            }
            (None, None, None) => {
                Err(ApiError::new(ErrorCode::MissingMember, "nothing to do: neither `task` nor `kind`")
                    .with_hint(
                        r#"for example {"kind": "shell", "code": "echo hello"} or {"kind": "session"}"#,
                    ))
            }
        }
    }
}

impl JsonRequest for ScheduleBody {
    const NUMBERS: &'static [(&'static str, NumberBounds)] = &[
        ("limits.cpus", NumberBounds::Real(bounds::CPUS)),
        ("limits.memory_mib", NumberBounds::Whole(bounds::MEMORY_MIB)),
        ("limits.disk_mib", NumberBounds::Whole(bounds::DISK_MIB)),
        ("limits.pids", NumberBounds::Whole(bounds::PIDS)),
        ("limits.io_mib_s", NumberBounds::Whole(bounds::IO_MIB_S)),
        ("limits.recording_mib", NumberBounds::Whole(bounds::RECORDING_MIB)),
        ("limits.timeout_s", NumberBounds::Whole(bounds::TIMEOUT_S)),
        ("limits.idle_timeout_s", NumberBounds::Whole(bounds::TIMEOUT_S)),
        ("budget.steps", NumberBounds::Whole(bounds::STEPS)),
        ("budget.tokens", NumberBounds::Whole(bounds::TOKENS)),
        ("budget.usd", NumberBounds::Real(bounds::USD)),
        ("ask_timeout_s", NumberBounds::Whole(bounds::TIMEOUT_S)),
    ];

    fn checked(mut self) -> Result<Self, ApiError> {
        self.work()?;
        self.name.as_deref().map_or(Ok(()), rules::check_name)?;
        rules::check_files(&self.files)?;
        rules::check_env(&self.env)?;
        self.model.as_deref().map_or(Ok(()), rules::check_model)?;
        self.isolation.as_deref().map_or(Ok(()), rules::check_isolation)?;
        rules::check_egress(&self.egress)?;
        // Host names compare without case, in the egress gateway and in the rule for `git.url`.
        self.egress.iter_mut().for_each(|rule| rule.make_ascii_lowercase());
        self.git.as_ref().map_or(Ok(()), |git| git.check(&self.egress))?;
        Ok(self)
    }
}

fn checked_task(task: &str) -> Result<&str, ApiError> {
    if task.trim().is_empty() {
        return Err(ApiError::new(ErrorCode::EmptyTask, "the task is empty"));
    }
    rules::check_length("task", task, bounds::TASK_BYTES)?;
    Ok(task)
}

fn checked_code(code: &str) -> Result<&str, ApiError> {
    if code.trim().is_empty() {
        return Err(ApiError::new(ErrorCode::EmptyCode, "`code` is empty")
            .with_hint("an open sandbox without code is {\"kind\": \"session\"}"));
    }
    rules::check_length("code", code, bounds::CODE_BYTES)?;
    Ok(code)
}

fn conflicting(message: &str) -> ApiError {
    ApiError::new(ErrorCode::ConflictingMembers, message)
}
