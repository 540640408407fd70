//! Requests about processes of a live sandbox.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::reader::{JsonRequest, read};
use crate::ApiError;

/// The signals that have names here, with Linux's numbers for them.
const SIGNALS: [(&str, i32); 15] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];
/// The largest number of a signal on Linux.
const LAST_SIGNAL: i32 = 64;

/// Body of `POST /jobs/{id}/processes/{process}/signal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignalRequest {
    /// Name of the signal, such as `TERM` or `SIGINT`, or its number.
    #[schema(value_type = String, example = "TERM")]
    pub signal: ProcessSignal,
}

impl SignalRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        read(body)
    }
}

impl JsonRequest for SignalRequest {}

/// A signal of Linux, 1 to 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSignal(i32);

impl ProcessSignal {
    /// Interrupts, as Ctrl-C does.
    pub const INTERRUPT: Self = Self(2);

    /// Returns the number of the signal.
    pub fn number(self) -> i32 {
        self.0
    }

    fn named(text: &str) -> Option<Self> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| Self(*number))
    }
}

impl Serialize for ProcessSignal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match SIGNALS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => serializer.serialize_str(name),
            None => serializer.serialize_i32(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for ProcessSignal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SignalVisitor)
    }
}

struct SignalVisitor;

impl Visitor<'_> for SignalVisitor {
    type Value = ProcessSignal;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a signal or its number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ProcessSignal, E> {
        ProcessSignal::named(text).ok_or_else(|| E::custom("names no signal; try TERM, INT or KILL"))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<ProcessSignal, E> {
        let known = i32::try_from(number).ok().filter(|number| (1..=LAST_SIGNAL).contains(number));
        known.map(ProcessSignal).ok_or_else(|| E::custom("must be a signal from 1 to 64"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ErrorCode;

    #[test]
    fn signals_have_names_and_numbers() {
        for (given, number) in
            [(json!("TERM"), 15), (json!("SIGINT"), 2), (json!("kill"), 9), (json!(40), 40)]
        {
            let request = SignalRequest::from_json(&json!({ "signal": given })).unwrap();
            assert_eq!(request.signal.number(), number);
            let written = serde_json::to_value(&request).unwrap();
            assert_eq!(SignalRequest::from_json(&written), Ok(request));
        }
        for (given, code) in [
            (json!("NONSENSE"), ErrorCode::InvalidValue),
            (json!(""), ErrorCode::InvalidValue),
            (json!(0), ErrorCode::InvalidValue),
            (json!(65), ErrorCode::InvalidValue),
            (json!(["TERM"]), ErrorCode::InvalidType),
        ] {
            assert_eq!(
                SignalRequest::from_json(&json!({ "signal": given })).unwrap_err().code,
                code,
                "{given}"
            );
        }
        assert_eq!(SignalRequest::from_json(&json!({})).unwrap_err().code, ErrorCode::MissingMember);
    }
}
