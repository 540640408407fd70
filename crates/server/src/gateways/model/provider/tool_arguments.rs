//! The arguments of tool calls as providers take them back.

use serde_json::{Value, json};

/// Returns a tool call's arguments as an object, the only form that every provider accepts back. Other text that a model wrote
/// is kept whole as a member.
pub(super) fn arguments_object(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ if arguments.trim().is_empty() => json!({}),
        _ => json!({ "malformed_arguments": arguments }),
    }
}
