//! Bounds a call from a sandbox before it is parsed.

use sandyard_protocol::{ModelCall, ModelMessage, limits};

use crate::json_scan::values;

/// The call is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadCall {
    #[error("a call of a model has too many parts")]
    TooManyValues,
    #[error("not a call of a model: {0}")]
    Malformed(String),
}

/// Parses a call. The frame bounds its length. Its values are counted first, because a parser takes up to thirty times the
/// memory of its input. Arguments of tool calls are JSON in a string, which is parsed later, so their values count too.
pub(super) fn read_call(json: &[u8]) -> Result<ModelCall, BadCall> {
    let outer = values(json);
    if outer > limits::MODEL_CALL_VALUES {
        return Err(BadCall::TooManyValues);
    }
    // Only now: the count above bounds the memory of this parse.
    let call: ModelCall =
        serde_json::from_slice(json).map_err(|error| BadCall::Malformed(error.to_string()))?;
    let inner: usize = call
        .messages
        .iter()
        .map(|message| match message {
            ModelMessage::Assistant { calls, .. } => {
                calls.iter().map(|call| values(call.arguments.as_bytes())).sum()
            }
            ModelMessage::User { .. } | ModelMessage::Tools { .. } => 0,
        })
        .sum();
    if outer + inner > limits::MODEL_CALL_VALUES { Err(BadCall::TooManyValues) } else { Ok(call) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_call(&bytes);
        }
    }

    fn call(messages: &Value) -> Vec<u8> {
        let call = json!({
            "number": 1, "model": null, "system": "", "messages": messages, "tools": [], "max_tokens": 1,
        });
        call.to_string().into_bytes()
    }

    #[test]
    fn text_full_of_commas_is_taken_and_a_swarm_of_values_is_not() {
        let text =
            json!([{ "role": "user", "parts": [{ "type": "text", "text": "[,\"{".repeat(300_000) }] }]);
        assert!(read_call(&call(&text)).is_ok());
        let swarm = json!([{ "role": "user", "parts": [], "more": vec![1; 200_001] }]);
        assert_eq!(read_call(&call(&swarm)), Err(BadCall::TooManyValues));
        let hidden = json!({ "id": "1", "name": "x", "arguments": format!("[{}1]", "1,".repeat(200_001)) });
        let hidden = json!([{ "role": "assistant", "text": "", "calls": [hidden] }]);
        assert_eq!(read_call(&call(&hidden)), Err(BadCall::TooManyValues));
    }
}
