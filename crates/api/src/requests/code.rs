//! Requests for code and kernels of a live sandbox.

use sandyard_protocol::Language;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::bounds;
use super::reader::{JsonRequest, NumberBounds, read};
use super::refusal::{invalid, unknown_name};
use super::schedule_rules::check_length;
use crate::{ApiError, ErrorCode};

/// Returns the language of that name; otherwise an error that names the nearest.
pub fn parse_language(name: &str) -> Result<Language, ApiError> {
    let language = Language::ALL.into_iter().find(|language| language.as_str() == name);
    language.ok_or_else(|| {
        unknown_name(ErrorCode::UnknownLanguage, "language", name, &Language::ALL.map(Language::as_str))
    })
}

/// Body of `POST /jobs/{id}/code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeRequest {
    /// Language of the code.
    pub language: Language,
    /// The code.
    pub code: String,
    /// Kernel to run in; the first one of the language if not given, started on first use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Time after which the code is interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// Time without output after which the code is interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<u64>,
    /// True if a lost connection interrupts the code; otherwise the code continues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupt_on_disconnect: bool,
}

impl CodeRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        read(body)
    }
}

impl JsonRequest for CodeRequest {
    const NUMBERS: &'static [(&'static str, NumberBounds)] = &[
        ("timeout_s", NumberBounds::Whole(bounds::TIMEOUT_S)),
        ("idle_timeout_s", NumberBounds::Whole(bounds::TIMEOUT_S)),
    ];

    fn checked(self) -> Result<Self, ApiError> {
        if self.code.trim().is_empty() {
            return Err(ApiError::new(ErrorCode::EmptyCode, "`code` is empty"));
        }
        check_length("code", &self.code, bounds::CODE_BYTES)
            .map_err(|error| error.with_hint("PUT it to /jobs/{id}/files/{path} and import that"))?;
        if self.kernel.as_deref().is_some_and(|kernel| !is_kernel_name(kernel)) {
            return Err(invalid("kernel", "names no kernel").with_hint("GET /jobs/{id}/kernels lists them"));
        }
        Ok(self)
    }
}

/// Body of `POST /jobs/{id}/kernels`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelRequest {
    /// Language of the kernel.
    pub language: Language,
}

impl KernelRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        read(body)
    }
}

impl JsonRequest for KernelRequest {}

/// True if a text can be the name of a kernel, an execution or a process: keeper makes short names of letters, digits and `-`.
pub fn is_kernel_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.len() <= 64 && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn code_bodies_are_checked() {
        let whole = json!({"language": "typescript", "code": "1", "kernel": "typescript-2", "timeout_s": 5,
            "idle_timeout_s": null, "interrupt_on_disconnect": true});
        let request = CodeRequest::from_json(&whole).unwrap();
        assert_eq!((request.language, request.timeout_s), (Language::Typescript, Some(5)));
        assert!(request.interrupt_on_disconnect);
        for (body, code) in [
            (json!({"code": "1"}), ErrorCode::MissingMember),
            (json!({"language": "python"}), ErrorCode::MissingMember),
            (json!({"language": "python", "code": " \n"}), ErrorCode::EmptyCode),
            (json!({"language": "ruby", "code": "1"}), ErrorCode::UnknownLanguage),
            (json!({"language": 3, "code": "1"}), ErrorCode::InvalidType),
            (json!({"language": "python", "code": "1", "kernel": "../x"}), ErrorCode::InvalidValue),
            (json!({"language": "python", "code": "1", "kernal": "x"}), ErrorCode::UnknownMember),
            (json!({"language": "python", "code": "1", "timeout_s": 0}), ErrorCode::InvalidValue),
            (json!([]), ErrorCode::InvalidType),
        ] {
            assert_eq!(CodeRequest::from_json(&body).unwrap_err().code, code, "{body}");
        }
        let near = CodeRequest::from_json(&json!({"language": "pyton", "code": "1"})).unwrap_err();
        assert_eq!(near.hint.as_deref(), Some("did you mean `python`?"));
    }

    #[test]
    fn kernel_bodies_are_checked() {
        assert!(KernelRequest::from_json(&json!({"language": "bash"})).is_ok());
        assert!(KernelRequest::from_json(&json!({"language": "bash", "name": "x"})).is_err());
        assert!(KernelRequest::from_json(&json!({})).is_err());
    }
}
