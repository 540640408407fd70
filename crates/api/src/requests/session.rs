//! Requests to a job that lives: shell commands, replies, tickets.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::bounds;
use super::nearest::nearest;
use super::object::{Object, invalid, missing};
use super::schedule::Budget;
use super::schedule_members::{self as members, env};
use crate::{ApiError, ErrorCode};

/// Body of `POST /jobs/{id}/shell`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ShellRequest {
    /// For bash.
    pub command: String,
    /// Where to run it; `/workspace` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Ends it after this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// Ends it after this long without output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<u64>,
    /// Its whole standard input; empty if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

impl ShellRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        let body = Object::root(body)?;
        body.only(&["command", "cwd", "env", "timeout_s", "idle_timeout_s", "stdin"])?;
        let command = body.needed_text("command")?;
        if command.trim().is_empty() {
            return Err(ApiError::new(ErrorCode::EmptyCode, "`command` is empty"));
        }
        if command.len() > bounds::COMMAND_BYTES {
            return Err(invalid("command", &format!("must be at most {} bytes", bounds::COMMAND_BYTES))
                .with_hint("PUT a script to /jobs/{id}/files/{path} and run that"));
        }
        Ok(Self {
            command: command.to_owned(),
            cwd: working_directory(&body)?,
            env: env(&body)?,
            timeout_s: body.whole("timeout_s", bounds::TIMEOUT_S)?,
            idle_timeout_s: body.whole("idle_timeout_s", bounds::TIMEOUT_S)?,
            stdin: body.text("stdin")?.map(str::to_owned),
        })
    }
}

/// A directory of the machine, absolute or below the workspace. Descriptor paths and `..` are refused here, and the
/// guest resolves the rest inside its own root.
fn working_directory(body: &Object<'_>) -> Result<Option<String>, ApiError> {
    let Some(directory) = body.text("cwd")? else { return Ok(None) };
    let climbs = directory.split('/').any(|name| name == "..");
    let odd = directory.starts_with("/proc") || directory.starts_with("/dev/fd");
    if directory.is_empty() || directory.len() > bounds::PATH_BYTES || climbs || odd {
        return Err(invalid(
            "cwd",
            "must be a directory of the sandbox, without `..`, outside /proc and /dev/fd",
        ));
    }
    Ok(Some(directory.to_owned()))
}

/// Body of `POST /jobs/{id}/reply`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReplyRequest {
    /// The answer, or whatever the job should know.
    pub text: String,
    /// What it may spend from now on; members that are not given stay as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

impl ReplyRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        let body = Object::root(body)?;
        body.only(&["text", "budget"])?;
        let text = body.needed_text("text")?;
        if text.trim().is_empty() || text.len() > bounds::REPLY_BYTES {
            return Err(invalid("text", &format!("must have 1 to {} bytes", bounds::REPLY_BYTES)));
        }
        let budget = body.object("budget")?.is_some().then(|| members::budget(&body)).transpose()?;
        Ok(Self { text: text.to_owned(), budget })
    }
}

/// Body of `POST /jobs/{id}/tickets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TicketRequest {
    /// `lab`, `desktop`, `pty`, `download` or `port:<number>`.
    #[serde(rename = "for")]
    #[schema(value_type = String, example = "download")]
    pub purpose: TicketPurpose,
}

/// What a ticket is good for.
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
    /// A port of the sandbox.
    Port(u16),
}

impl TicketRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        let body = Object::root(body)?;
        body.only(&["for"])?;
        let purpose = body.text("for")?.ok_or_else(|| missing("for"))?;
        Ok(Self { purpose: TicketPurpose::parse(purpose)? })
    }
}

impl TicketPurpose {
    fn parse(text: &str) -> Result<Self, ApiError> {
        if let Some(port) = text.strip_prefix("port:") {
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|number| digits && *number > 0);
            return number.map(Self::Port).ok_or_else(|| invalid("for", "names no port from 1 to 65535"));
        }
        match text {
            "lab" => Ok(Self::Lab),
            "desktop" => Ok(Self::Desktop),
            "pty" => Ok(Self::Pty),
            "download" => Ok(Self::Download),
            other => {
                let error = invalid("for", "must be `lab`, `desktop`, `pty`, `download` or `port:<number>`");
                Err(match nearest(other, &["lab", "desktop", "pty", "download"]) {
                    Some(meant) => error.with_hint(format!("did you mean `{meant}`?")),
                    None => error,
                })
            }
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
