//! The job as a client asks for it.

use std::collections::BTreeMap;

use sandyard_protocol::{JobWork, Language, TaskBudget};
use sandyard_sandbox::driver::IsolationLevel;
use serde::{Deserialize, Serialize};

pub use sandyard_api::{GitSource, JobKind, OnSilence, RequestedLimits};

/// A job to be scheduled; well-formed by the API's rules. Limits and isolation are checked by `schedule`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// What it is.
    pub kind: JobKind,
    /// The script or the task; empty for a session.
    pub code: String,
    /// A name for people.
    pub name: Option<String>,
    /// Files put into the workspace before the start; stored beside the rest of the request.
    #[serde(skip)]
    pub files: Vec<InputFile>,
    /// Environment of everything that runs.
    pub env: BTreeMap<String, String>,
    /// How strong the wall must be.
    pub isolation: Floor,
    /// How much it may use; what is not given comes from the configuration.
    pub limits: RequestedLimits,
    /// Whether the sandbox stays up after the end.
    pub keep: bool,
    /// Hosts it may reach.
    #[serde(default)]
    pub egress: Vec<String>,
    /// A repository that is cloned into the workspace before its files are written.
    #[serde(default)]
    pub git: Option<GitSource>,
    /// How a task is worked on.
    #[serde(default)]
    pub task: TaskOptions,
}

/// How a task is worked on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskOptions {
    /// Which model; the yard's own if none is named. Always named in a stored job.
    pub model: Option<String>,
    /// What it may spend.
    pub budget: TaskBudget,
    /// How long a question waits for its answer. Always there in a stored job.
    pub ask_timeout_s: Option<u64>,
    /// What becomes of a question that nobody answers.
    #[serde(default)]
    pub on_silence: OnSilence,
}

impl NewJob {
    /// What the guest is to do.
    pub(crate) fn work(&self) -> JobWork {
        match self.kind {
            JobKind::Shell => JobWork::Shell { code: self.code.clone() },
            JobKind::Gui => JobWork::Gui { code: self.code.clone() },
            JobKind::Session => JobWork::Session,
            JobKind::Python => self.in_kernel(Language::Python),
            JobKind::Typescript => self.in_kernel(Language::Typescript),
            JobKind::Task => JobWork::Task,
        }
    }

    fn in_kernel(&self, language: Language) -> JobWork {
        JobWork::Kernel { language, code: self.code.clone() }
    }
}

/// A file of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Relative to the workspace.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The weakest isolation a job accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Floor {
    /// Whatever this machine has.
    Any,
    /// At least this level.
    Level(IsolationLevel),
    /// Exactly this driver.
    Driver(String),
}

impl Floor {
    /// As it was asked for.
    pub fn as_text(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::Level(level) => level.as_str().to_owned(),
            Self::Driver(name) => name.clone(),
        }
    }
}
