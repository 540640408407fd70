//! The canonical encoding: JSON without white space, members sorted by name, whole numbers only. One value has one encoding.
//!
//! Every language can produce it. In Python it is `json.dumps(value, sort_keys=True, separators=(",", ":"),
//! ensure_ascii=False)`.

use serde_json::Value;

/// Encodes a value canonically, so that equal values have equal hashes.
pub(crate) fn encode(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            // Sorted here: `serde_json` keeps the order of insertion if any crate in the build enables `preserve_order`.
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            text.push('{');
            for (place, (name, member)) in sorted.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(member, text);
            }
            text.push('}');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_sorted_and_nothing_is_between_them() {
        let value = json!({ "b": [1, { "z": null, "a": true }], "a": "x y" });
        assert_eq!(encode(&value), r#"{"a":"x y","b":[1,{"a":true,"z":null}]}"#);
    }

    #[test]
    fn python_makes_the_same_of_it() {
        let text = "\u{0}\u{1f}\u{7f}\"\\/\n\t\u{8}\u{c}\ré世\u{1f600}\u{2028}";
        let value = json!({ text: text, "é": -1, "z": u64::MAX, "Z": [], "": {} });
        let script = "import json,sys; sys.stdout.reconfigure(newline=''); sys.stdout.write(json.dumps(json.loads(sys.argv[1]), \
                      sort_keys=True, separators=(',', ':'), ensure_ascii=False))";
        let spaced = serde_json::to_string_pretty(&value).unwrap();
        let output =
            Command::new("python3").env("PYTHONUTF8", "1").args(["-c", script, &spaced]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), encode(&value));
    }
}
