//! The job as a client asks for it.

use std::collections::BTreeMap;

use sandyard_protocol::{JobWork, Language, TaskBudget};
use sandyard_sandbox::driver::IsolationLevel;
use sandyard_sandbox::image::ImageFlavour;
use serde::{Deserialize, Serialize};

pub use sandyard_api::{GitSource, JobKind, OnSilence, RequestedLimits};

/// A job to be scheduled; well-formed by the API's rules. Limits and isolation are checked by `schedule`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// The kind of job, which decides how `code` is run.
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
    /// The weakest isolation that the job accepts.
    pub isolation: Floor,
    /// Limits that the client asked for. Missing ones come from the configuration.
    pub limits: RequestedLimits,
    /// True if the sandbox stays up after the end.
    pub keep: bool,
    /// Rules for hosts that the job may reach. Empty: no network.
    #[serde(default)]
    pub egress: Vec<String>,
    /// A repository that is cloned into the workspace before its files are written.
    #[serde(default)]
    pub git: Option<GitSource>,
    /// Options of a task; defaults for every other kind.
    #[serde(default)]
    pub task: TaskOptions,
    /// The image that the client asked for; the server chooses if there is none.
    #[serde(default)]
    pub flavour: Option<ImageFlavour>,
}

/// Options of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskOptions {
    /// Name of the model; the yard's default if `None`. Always `Some` in a stored job.
    pub model: Option<String>,
    /// The budget for model calls.
    pub budget: TaskBudget,
    /// Seconds that a question waits for its answer. Always `Some` in a stored job.
    pub ask_timeout_s: Option<u64>,
    /// The consequence of a question that nobody answers.
    #[serde(default)]
    pub on_silence: OnSilence,
}

impl NewJob {
    /// Returns the work for the guest.
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
    /// Content of the file, any bytes.
    pub bytes: Vec<u8>,
}

/// The weakest isolation a job accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Floor {
    /// The strongest isolation that this machine has, whatever that is.
    Any,
    /// At least this level.
    Level(IsolationLevel),
    /// The driver with this name and no other.
    Driver(String),
}

impl Floor {
    /// Returns the floor of that name: `any`, a level, or else the name of a driver.
    pub fn parse(name: &str) -> Self {
        match name {
            "any" => Self::Any,
            name => IsolationLevel::parse(name).map_or_else(|| Self::Driver(name.to_owned()), Self::Level),
        }
    }

    /// Returns the floor as the client wrote it.
    pub fn as_text(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::Level(level) => level.as_str().to_owned(),
            Self::Driver(name) => name.clone(),
        }
    }
}
