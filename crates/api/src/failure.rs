//! Why a job ended badly: a stable code for programs, a sentence and a hint for people.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Why a job ended badly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = JobErrorView)]
pub struct JobFailure {
    /// Stable code in snake_case.
    pub code: FailureCode,
    /// The reason in one sentence.
    pub message: String,
    /// How to avoid or fix it.
    pub hint: Option<String>,
}

macro_rules! failure_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// The codes of failed jobs.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum FailureCode {
            $($(#[doc = $doc])+ $name,)+
            /// A code that this version does not know. A database may hold jobs of another version.
            Other(String),
        }

        impl FailureCode {
            /// Every code of this version.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the stable name, in snake_case.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Other(name) => name,
                }
            }
        }
    };
}

failure_codes! {
    /// The agent ended without reporting a result.
    AgentFailed = "agent_failed",
    /// A client cancelled the job.
    Cancelled = "cancelled",
    /// The yard's disk ran low, and the job used most of it.
    DiskExhausted = "disk_exhausted",
    /// The sandbox's disk is full.
    DiskFull = "disk_full",
    /// The sandbox's disk became read-only, because the host lost writes to it.
    DiskLost = "disk_lost",
    /// The workspace could not be saved.
    ExportFailed = "export_failed",
    /// The guest could not write a file of the request.
    FileRefused = "file_refused",
    /// The agent gave up on its task.
    GaveUp = "gave_up",
    /// The repository could not be cloned.
    GitFailed = "git_failed",
    /// The job wrote no output within its idle limit.
    IdleTimedOut = "idle_timed_out",
    /// The guest did not accept the job.
    JobRefused = "job_refused",
    /// A signal ended the job's process.
    KilledBySignal = "killed_by_signal",
    /// A question had no answer in time.
    NoAnswer = "no_answer",
    /// No driver can run the job.
    NoDriver = "no_driver",
    /// The driver has no image to start from.
    NoImage = "no_image",
    /// The job's process exited with a code other than 0.
    NonzeroExit = "nonzero_exit",
    /// The kernel killed a process at the memory limit.
    OutOfMemory = "out_of_memory",
    /// The limit on processes was reached.
    ProcessLimit = "process_limit",
    /// The sandbox died while the job was running.
    SandboxDied = "sandbox_died",
    /// The guest broke the protocol.
    SandboxMisbehaved = "sandbox_misbehaved",
    /// The sandbox did not start.
    SandboxStartFailed = "sandbox_start_failed",
    /// The job reached its time limit.
    TimedOut = "timed_out",
}

impl From<String> for FailureCode {
    fn from(name: String) -> Self {
        let known = Self::ALL.iter().find(|code| code.as_str() == name).cloned();
        known.unwrap_or(Self::Other(name))
    }
}

impl Serialize for FailureCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FailureCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl PartialSchema for FailureCode {
    fn schema() -> RefOr<Schema> {
        let names: Vec<&str> = Self::ALL.iter().map(Self::as_str).collect();
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
        let description =
            "The codes of failed jobs. A job of another version may have a code that is not listed.";
        schema.description(Some(description)).examples(["out_of_memory"]).into()
    }
}

impl ToSchema for FailureCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_from_its_name() {
        for code in FailureCode::ALL {
            let text = serde_json::to_string(code).unwrap();
            assert_eq!(text, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<FailureCode>(&text).unwrap(), *code);
        }
        assert!(FailureCode::ALL.is_sorted_by_key(|code| code.as_str().to_owned()));
    }

    #[test]
    fn a_code_of_another_version_survives() {
        let stored = r#"{"code":"eaten_by_bears","message":"m","hint":null}"#;
        let failure: JobFailure = serde_json::from_str(stored).unwrap();
        assert_eq!(failure.code, FailureCode::Other("eaten_by_bears".into()));
        assert_eq!(serde_json::to_string(&failure).unwrap(), stored);
    }
}
