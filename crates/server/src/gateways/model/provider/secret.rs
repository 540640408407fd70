//! A provider's key, and its removal from text.
//!
//! Any text of a provider may contain the key: some echo headers, in errors or even in answers. All text that leaves the
//! gateway passes through here. Keys shorter than [`MIN_SECRET_BYTES`] are placeholders for local servers, not secrets.

use std::fmt;

use axum::http::HeaderValue;

/// A shorter key is not a secret.
const MIN_SECRET_BYTES: usize = 8;
/// A run of this many bytes of the key counts as the key, because providers cut texts. A shorter one could be the public
/// prefix that all keys of a provider share.
const FRAGMENT_BYTES: usize = 16;
/// Replacement for the key.
const MASK: &str = "[key]";

/// A provider's key. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// The text can't be sent in an HTTP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is one line of visible ASCII characters")]
pub struct BadKey;

impl ApiKey {
    /// Makes a key from the operator's text, trimmed.
    pub fn new(text: &str) -> Result<Self, BadKey> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadKey);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the header value, marked as sensitive so that it is neither logged nor compressed.
    pub(super) fn header(&self, prefix: &str) -> Result<HeaderValue, BadKey> {
        let mut value = HeaderValue::try_from(format!("{prefix}{}", self.0)).map_err(|_| BadKey)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Replaces the key, and its long parts, in a text.
    pub(super) fn strip(&self, text: &str) -> String {
        if self.0.len() < MIN_SECRET_BYTES {
            return text.to_owned();
        }
        let key = self.0.as_bytes();
        let width = FRAGMENT_BYTES.min(key.len());
        let mut clean = String::with_capacity(text.len());
        let (mut masked_until, mut copied_until) = (0, 0);
        for (start, window) in text.as_bytes().windows(width).enumerate() {
            if !key.windows(width).any(|part| part == window) {
                continue;
            }
            if start >= masked_until {
                // The key is ASCII, so both ends are character boundaries.
                clean.push_str(&text[copied_until..start]);
                clean.push_str(MASK);
            }
            masked_until = start + width;
            copied_until = masked_until;
        }
        clean.push_str(&text[copied_until..]);
        clean
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKey(redacted)")
    }
}

/// Strips a text that arrives in pieces. If the end of a piece may be the beginning of the key, it is held back.
#[derive(Debug)]
pub(super) struct Scrubber<'a> {
    key: Option<&'a ApiKey>,
    held: String,
}

impl<'a> Scrubber<'a> {
    pub(super) fn new(key: Option<&'a ApiKey>) -> Self {
        Self { key: key.filter(|key| key.0.len() >= MIN_SECRET_BYTES), held: String::new() }
    }

    /// Adds a piece. Returns the text that can be shown now.
    pub(super) fn push(&mut self, text: &str) -> String {
        let Some(key) = self.key else { return text.to_owned() };
        self.held.push_str(text);
        let longest = key.0.len().min(self.held.len());
        let held_bytes = self.held.as_bytes();
        let waits = (1..=longest)
            .rev()
            .find(|count| key.0.as_bytes()[..*count] == held_bytes[held_bytes.len() - count..])
            .unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - waits);
        let shown = key.strip(&self.held);
        self.held = rest;
        shown
    }

    /// Returns the text that was held back.
    pub(super) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.key.map_or(held.clone(), |key| key.strip(&held))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz";

    fn key() -> ApiKey {
        ApiKey::new(KEY).unwrap()
    }

    #[test]
    fn keys_show_neither_in_debug_nor_in_headers() {
        assert!(!format!("{:?}", key()).contains("abc"));
        assert!(!format!("{:?}", key().header("Bearer ").unwrap()).contains("abc"));
        assert_eq!(ApiKey::new(" \n").unwrap_err(), BadKey);
        assert_eq!(ApiKey::new("two\nlines").unwrap_err(), BadKey);
    }

    #[test]
    fn a_key_and_telling_parts_of_it_are_masked() {
        assert_eq!(key().strip(&format!("Bearer {KEY}, and {KEY}!")), "Bearer [key], and [key]!");
        assert_eq!(key().strip(&format!("cut {}", &KEY[..20])), "cut [key]");
        assert_eq!(key().strip(&format!("tail {}é", &KEY[15..])), "tail [key]é");
        assert_eq!(key().strip("keys begin with sk-ant-api03-"), "keys begin with sk-ant-api03-");
        assert_eq!(ApiKey::new("EMPTY").unwrap().strip("EMPTY"), "EMPTY");
    }

    proptest! {
        #[test]
        fn no_way_of_cutting_lets_the_key_through(
            before in "[a-z é-]{0,20}", after in "[a-z é-]{0,20}", cuts in prop::collection::vec(1usize..9, 1..40),
        ) {
            let whole = format!("{before}{KEY}{after}");
            let (key, mut shown) = (key(), String::new());
            let mut scrubber = Scrubber::new(Some(&key));
            let mut characters = whole.chars().peekable();
            for count in cuts.iter().cycle() {
                if characters.peek().is_none() {
                    break;
                }
                let piece: String = characters.by_ref().take(*count).collect();
                shown.push_str(&scrubber.push(&piece));
            }
            shown.push_str(&scrubber.finish());
            prop_assert!(!shown.contains(&KEY[..FRAGMENT_BYTES]), "{}", shown);
            prop_assert_eq!(shown, key.strip(&whole));
        }

        #[test]
        fn other_words_come_through_whole(pieces in prop::collection::vec("[sk ant-]{0,12}", 0..20)) {
            let key = key();
            let mut scrubber = Scrubber::new(Some(&key));
            let mut shown: String = pieces.iter().map(|piece| scrubber.push(piece)).collect();
            shown.push_str(&scrubber.finish());
            prop_assert_eq!(shown, pieces.concat());
        }
    }
}
