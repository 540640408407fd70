//! Measures JSON before a parser turns it into values.
//!
//! A parser takes up to two hundred times the memory of its input: `[],[],[]` is three bytes for a value of a hundred. So the
//! number of values and their depth are bounded first, by a scan that takes the text in pieces and allocates nothing.

/// A measure of the JSON text seen so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonScan {
    separators: usize,
    depth: usize,
    deepest: usize,
    in_string: bool,
    escaped: bool,
}

impl JsonScan {
    /// Takes the next piece of the text. It may end anywhere, also within a string or an escape.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b',' | b':' => self.separators += 1,
                b'[' | b'{' => {
                    self.separators += 1;
                    self.depth += 1;
                    self.deepest = self.deepest.max(self.depth);
                }
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// An upper bound of the number of values: each one follows the beginning, a separator or an opening.
    pub(crate) fn values(&self) -> usize {
        self.separators + 1
    }

    /// The largest number of arrays and objects around a value.
    pub(crate) fn deepest(&self) -> usize {
        self.deepest
    }
}

/// An upper bound of the number of values in a whole text.
pub(crate) fn values(json: &[u8]) -> usize {
    let mut scan = JsonScan::default();
    scan.push(json);
    scan.values()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn count(value: &Value) -> usize {
        match value {
            Value::Array(values) => 1 + values.iter().map(count).sum::<usize>(),
            Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
            _ => 1,
        }
    }

    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_document_has_more_values_than_are_counted(value in any_json(), cut in any::<prop::sample::Index>()) {
            let text = value.to_string().into_bytes();
            let (first, second) = text.split_at(cut.index(text.len() + 1));
            let mut scan = JsonScan::default();
            scan.push(first);
            scan.push(second);
            prop_assert!(scan.values() >= count(&value));
            prop_assert_eq!(scan.deepest(), depth(&value));
            prop_assert_eq!(scan.values(), values(&text), "a cut changes nothing");
        }
    }

    #[test]
    fn text_within_strings_does_not_count() {
        assert_eq!(values(br#"{"a": "[,{\"[,:"}"#), 3);
    }
}
