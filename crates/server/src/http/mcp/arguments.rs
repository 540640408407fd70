//! The arguments of a tool, read by name. Unknown names are rejected.

use std::ops::RangeInclusive;

use rmcp::model::JsonObject;
use sandyard_api::{ApiError, ErrorCode, JobIdPrefix};
use serde_json::Value;

/// The arguments of one call; each is taken once.
#[derive(Debug, Default)]
pub(super) struct Arguments(JsonObject);

impl Arguments {
    /// Accepts arguments whose names are known; `null` counts as absent, because some clients fill in everything.
    pub(super) fn read(mut given: JsonObject, known: &[&str]) -> Result<Self, ApiError> {
        given.retain(|_, value| !value.is_null());
        if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
            let shown: String = name.chars().take(64).collect();
            return Err(ApiError::new(ErrorCode::UnknownMember, format!("there is no argument `{shown}`"))
                .with_hint(format!("known arguments: {}", known.join(", "))));
        }
        Ok(Self(given))
    }

    /// The job that the call is about, by its id or the beginning of it. The API finds the job.
    pub(super) fn job(&mut self) -> Result<JobIdPrefix, ApiError> {
        let text = self.needed_text("job_id")?;
        JobIdPrefix::parse(&text).ok_or_else(|| {
            ApiError::new(ErrorCode::UnknownJob, "there is no such job")
                .with_hint("list_jobs shows the jobs that are kept")
        })
    }

    /// A text that may be absent.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong_type(name, "text")),
        }
    }

    /// A text that must be there.
    pub(super) fn needed_text(&mut self, name: &str) -> Result<String, ApiError> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A whole number within bounds. `3.0` is a whole number: JSON has only one kind of number.
    pub(super) fn whole(&mut self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.0.remove(name) else { return Ok(None) };
        let number = value.as_f64().ok_or_else(|| wrong_type(name, "a whole number"))?;
        let whole = (number.fract() == 0.0 && number >= 0.0).then_some(number as u64);
        whole.filter(|number| bounds.contains(number)).map(Some).ok_or_else(|| {
            let (least, most) = bounds.into_inner();
            let message = format!("`{name}` must be a whole number from {least} to {most}");
            ApiError::new(ErrorCode::InvalidValue, message)
        })
    }

    /// A whole number within bounds that must be there.
    pub(super) fn needed_whole(&mut self, name: &str, bounds: RangeInclusive<u64>) -> Result<u64, ApiError> {
        self.whole(name, bounds)?.ok_or_else(|| missing(name))
    }

    /// True or false; false if it is absent.
    pub(super) fn truth(&mut self, name: &str) -> Result<bool, ApiError> {
        match self.0.remove(name) {
            None => Ok(false),
            Some(Value::Bool(truth)) => Ok(truth),
            Some(_) => Err(wrong_type(name, "true or false")),
        }
    }

    /// The remaining arguments as the body of a request, which the API checks.
    pub(super) fn rest(self) -> Value {
        Value::Object(self.0)
    }
}

fn missing(name: &str) -> ApiError {
    ApiError::new(ErrorCode::MissingMember, format!("`{name}` is missing"))
}

fn wrong_type(name: &str, wanted: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidType, format!("`{name}` must be {wanted}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Result<Arguments, ApiError> {
        let Value::Object(given) = value else { unreachable!("tests pass objects") };
        Arguments::read(given, &["job_id", "wait_s"])
    }

    fn count(value: &Value) -> usize {
        match value {
            Value::Array(values) => 1 + values.iter().map(count).sum::<usize>(),
            Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
            _ => 1,
        }
    }

    /// No body has more values than were counted before it was parsed, and neither the protocol's types nor a tool's arguments
    /// can be made to panic.
    #[test]
    fn fuzz_mcp() {
        sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "mcp").run(|bytes| {
            let counted = crate::json_scan::values(bytes);
            let _ = serde_json::from_slice::<rmcp::model::ClientJsonRpcMessage>(bytes);
            let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
            assert!(counted >= count(&value));
            let Value::Object(given) = value else { return };
            let Ok(mut arguments) = Arguments::read(given, &["job_id", "wait_s", "name"]) else { return };
            let _ = arguments.job();
            let _ = arguments.text("name");
            if let Ok(Some(whole)) = arguments.whole("wait_s", 0..=300) {
                assert!(whole <= 300);
            }
        });
    }

    #[test]
    fn unknown_and_malformed_arguments_are_refused() {
        let refused = arguments(json!({"job": "x"})).unwrap_err();
        assert_eq!(refused.hint.as_deref(), Some("known arguments: job_id, wait_s"));
        for bad in [json!(-1), json!(1.5), json!(301), json!("3"), json!(1e300)] {
            assert!(arguments(json!({ "wait_s": bad })).unwrap().whole("wait_s", 0..=300).is_err(), "{bad}");
        }
        assert_eq!(arguments(json!({"wait_s": 3.0})).unwrap().whole("wait_s", 0..=300), Ok(Some(3)));
        assert_eq!(arguments(json!({"wait_s": null})).unwrap().whole("wait_s", 0..=300), Ok(None));
        assert_eq!(arguments(json!({})).unwrap().job().unwrap_err().code, ErrorCode::MissingMember);
        assert_eq!(
            arguments(json!({"job_id": "../x"})).unwrap().job().unwrap_err().code,
            ErrorCode::UnknownJob
        );
    }
}
