//! From text to search terms: runs of letters and digits, identifiers taken apart and kept whole, stop words removed, stems.
//!
//! `runs` finds words and identifiers, `parts` splits an identifier at case, digit and underscore borders, `terms_of_run` returns the
//! terms of one run. The same functions serve the index and the query, so both always agree. No I/O, no state.

mod parts;
mod runs;
mod stem;
mod stem_rules;
mod stop_words;

pub use stem::stem;

pub use parts::parts;
pub use runs::runs;
use stop_words::is_stop_word;

/// A run longer than this is data (hex, base64) and is not taken apart.
const LONGEST_IDENTIFIER_BYTES: usize = 48;
/// A run longer than this is no term at all; SHA-512 in hex has 128 digits.
pub const LONGEST_TERM_BYTES: usize = 128;

/// Calls `visit` with each term of a run: the stems of its parts, then the whole identifier if it has several parts.
///
/// `getUserNames`, `get_user_names` and `GetUserNames` all give `get`, `user`, `name` and `getusernam`.
pub fn terms_of_run(run: &str, mut visit: impl FnMut(&str)) {
    if run.len() > LONGEST_TERM_BYTES {
        return;
    }
    if run.len() > LONGEST_IDENTIFIER_BYTES {
        visit(&run.to_lowercase());
        return;
    }
    let mut count = 0;
    let mut whole = String::with_capacity(run.len());
    parts(run, |part| {
        count += 1;
        let lower = part.to_lowercase();
        whole.push_str(&lower);
        if is_searchable(&lower) {
            visit(&stem(&lower));
        }
    });
    if count > 1 && whole.len() > 2 {
        visit(&stem(&whole));
    }
}

/// Returns the terms of a text in order, with repetitions.
pub fn terms(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    runs(text, |run| terms_of_run(run, |term| found.push(term.to_owned())));
    found
}

/// Single letters and digits say too little to be worth their room; single characters of other scripts are words.
fn is_searchable(part: &str) -> bool {
    (part.len() > 1) && !is_stop_word(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_an_identifier_share_their_terms() {
        let expected = ["get", "user", "name", "getusernam"];
        for spelling in ["getUserNames", "get_user_names", "GetUserNames", "GET_USER_NAMES"] {
            assert_eq!(terms(spelling), expected, "{spelling}");
        }
        assert_eq!(terms("HTTPServer2"), ["http", "server", "httpserver2"]);
    }

    #[test]
    fn stop_words_and_single_letters_are_left_out() {
        assert_eq!(terms("the value of x is in a list"), ["valu", "list"]);
    }

    #[test]
    fn data_is_kept_whole_or_not_at_all() {
        let hex = "0123456789abcdef".repeat(4);
        assert_eq!(terms(&hex), [hex.as_str()]);
        assert!(terms(&"a1".repeat(100)).is_empty());
    }

    #[test]
    fn other_scripts_are_words_too() {
        assert_eq!(terms("Größe des Fensters"), ["größe", "des", "fenster"]);
        assert_eq!(terms("日本語"), ["日", "本", "語"]);
    }
}
