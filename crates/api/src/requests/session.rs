//! Requests to a running job: shell commands, replies, tickets.

use std::collections::BTreeMap;
use std::fmt;

use sandyard_protocol::TaskBudget;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::bounds;
use super::reader::{JsonRequest, NumberBounds, read};
use super::refusal::invalid;
use super::schedule_rules::{check_env, check_length};
use crate::{ApiError, ErrorCode};

/// Body of `POST /jobs/{id}/shell`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShellRequest {
    /// Command line for bash.
    pub command: String,
    /// Working directory; `/workspace` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Additional environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Time after which the command is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// Time without output after which the command is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<u64>,
    /// Standard input of the command; empty if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// True to answer at once with the id of the process, which then runs on its own until it ends or reaches a limit. Otherwise a
    /// command that nobody follows any more is ended after 90 seconds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detach: bool,
    /// True if a lost connection ends the command at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupt_on_disconnect: bool,
}

impl ShellRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        read(body)
    }
}

impl JsonRequest for ShellRequest {
    const NUMBERS: &'static [(&'static str, NumberBounds)] = &[
        ("timeout_s", NumberBounds::Whole(bounds::TIMEOUT_S)),
        ("idle_timeout_s", NumberBounds::Whole(bounds::TIMEOUT_S)),
    ];

    fn checked(self) -> Result<Self, ApiError> {
        if self.command.trim().is_empty() {
            return Err(ApiError::new(ErrorCode::EmptyCode, "`command` is empty"));
        }
        check_length("command", &self.command, bounds::COMMAND_BYTES)
            .map_err(|error| error.with_hint("PUT a script to /jobs/{id}/files/{path} and run that"))?;
        if self.cwd.as_deref().is_some_and(|directory| !is_working_directory(directory)) {
            let problem = "must be a directory of the sandbox, without `..`, outside /proc and /dev/fd";
            return Err(invalid("cwd", problem));
        }
        check_env(&self.env)?;
        if self.detach && self.interrupt_on_disconnect {
            let problem = "`detach` and `interrupt_on_disconnect` exclude each other";
            return Err(ApiError::new(ErrorCode::ConflictingMembers, problem));
        }
        Ok(self)
    }
}

/// Checks a working directory: absolute or below the workspace, without `..` and without paths to open descriptors.
/// The guest resolves symbolic links inside its own root.
fn is_working_directory(directory: &str) -> bool {
    let climbs = directory.split('/').any(|name| name == "..");
    let descriptor = directory.starts_with("/proc") || directory.starts_with("/dev/fd");
    !directory.is_empty() && directory.len() <= bounds::PATH_BYTES && !climbs && !descriptor
}

/// Body of `POST /jobs/{id}/reply`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplyRequest {
    /// The answer, or another message.
    pub text: String,
    /// New budget; members that are not given stay unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<TaskBudget>,
}

impl ReplyRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        read(body)
    }
}

impl JsonRequest for ReplyRequest {
    const NUMBERS: &'static [(&'static str, NumberBounds)] = &[
        ("budget.steps", NumberBounds::Whole(bounds::STEPS)),
        ("budget.tokens", NumberBounds::Whole(bounds::TOKENS)),
        ("budget.usd", NumberBounds::Real(bounds::USD)),
    ];

    fn checked(self) -> Result<Self, ApiError> {
        if self.text.trim().is_empty() || self.text.len() > bounds::REPLY_BYTES {
            return Err(invalid("text", &format!("must have 1 to {} bytes", bounds::REPLY_BYTES)));
        }
        Ok(self)
    }
}

/// Body of `POST /jobs/{id}/extend`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExtendRequest {
    /// Seconds that the job may run from now on. A job that may run longer already keeps its time.
    pub timeout_s: u64,
}

impl ExtendRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        read(body)
    }
}

impl JsonRequest for ExtendRequest {
    const NUMBERS: &'static [(&'static str, NumberBounds)] =
        &[("timeout_s", NumberBounds::Whole(bounds::TIMEOUT_S))];
}

/// Body of `POST /jobs/{id}/tickets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TicketRequest {
    /// `lab`, `desktop`, `pty`, `download` or `port:<number>`.
    #[serde(rename = "for")]
    #[schema(value_type = String, example = "download")]
    pub purpose: TicketPurpose,
}

/// What a ticket opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketPurpose {
    /// JupyterLab.
    Lab,
    /// The desktop.
    Desktop,
    /// A terminal.
    Pty,
    /// The result.
    Download,
    /// The explanation of the result.
    Explained,
    /// A port of the sandbox.
    Port(u16),
}

impl TicketRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        read(body)
    }
}

impl JsonRequest for TicketRequest {}

impl<'de> Deserialize<'de> for TicketPurpose {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Some(port) = text.strip_prefix("port:") {
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|number| digits && *number > 0);
            return number.map(Self::Port).ok_or_else(|| D::Error::custom("names no port from 1 to 65535"));
        }
        match text.as_str() {
            "lab" => Ok(Self::Lab),
            "desktop" => Ok(Self::Desktop),
            "pty" => Ok(Self::Pty),
            "download" => Ok(Self::Download),
            "explained" => Ok(Self::Explained),
            other => Err(D::Error::unknown_variant(
                other,
                &["lab", "desktop", "pty", "download", "explained", "port:<number>"],
            )),
        }
    }
}

impl fmt::Display for TicketPurpose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lab => formatter.write_str("lab"),
            Self::Desktop => formatter.write_str("desktop"),
            Self::Pty => formatter.write_str("pty"),
            Self::Download => formatter.write_str("download"),
            Self::Explained => formatter.write_str("explained"),
            Self::Port(port) => write!(formatter, "port:{port}"),
        }
    }
}

impl Serialize for TicketPurpose {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shell_bodies_are_checked() {
        let request =
            ShellRequest::from_json(&json!({"command": "ls", "timeout_s": 5, "stdin": null})).unwrap();
        assert_eq!(request.timeout_s, Some(5));
        for (body, code) in [
            (json!({}), ErrorCode::MissingMember),
            (json!({"command": ""}), ErrorCode::EmptyCode),
            (json!({"command": ["ls"]}), ErrorCode::InvalidType),
            (json!({"command": "a\u{0}b"}), ErrorCode::InvalidValue),
            (json!({"command": "ls", "timeout_s": 0}), ErrorCode::InvalidValue),
            (json!({"command": "ls", "timeout": 3}), ErrorCode::UnknownMember),
            (json!({"command": "ls", "privileged": true}), ErrorCode::PrivilegedMember),
            (json!({"command": "ls", "cwd": "/proc/self/fd/7"}), ErrorCode::InvalidValue),
            (json!({"command": "ls", "cwd": "../../.."}), ErrorCode::InvalidValue),
            (json!({"command": "x".repeat(200_000)}), ErrorCode::InvalidValue),
            (
                json!({"command": "ls", "detach": true, "interrupt_on_disconnect": true}),
                ErrorCode::ConflictingMembers,
            ),
            (json!({"command": "ls", "detach": "yes"}), ErrorCode::InvalidType),
            (json!("ls"), ErrorCode::InvalidType),
        ] {
            assert_eq!(ShellRequest::from_json(&body).unwrap_err().code, code, "{body}");
        }
    }

    #[test]
    fn purposes_read_back() {
        for text in ["lab", "desktop", "pty", "download", "port:5173"] {
            let request = TicketRequest::from_json(&json!({ "for": text })).unwrap();
            assert_eq!(serde_json::to_value(&request).unwrap(), json!({ "for": text }));
        }
        for text in ["", "shell", "port:", "port:0", "port:70000", "port:+80", "PTY"] {
            assert!(TicketRequest::from_json(&json!({ "for": text })).is_err(), "{text}");
        }
    }
}
