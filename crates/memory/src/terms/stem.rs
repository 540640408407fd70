//! The English stemmer of Martin Porter's second algorithm ("Porter2"), so that `files`, `filing` and `filed` are one term.
//!
//! Words with other characters than ASCII letters are returned as they are, so identifiers with digits and other scripts keep
//! their form. Own code, because the only crate for it has been without a release since 2018.

use std::borrow::Cow;

use super::stem_rules::{
    DELETE_IN_R2, EXCEPTIONS, INVARIANT_AFTER_1A, REPLACE_STEP_2, REPLACE_STEP_3, Suffix,
};

/// Returns the stem of a word in lower case.
pub fn stem(word: &str) -> Cow<'_, str> {
    if word.len() <= 2 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Cow::Borrowed(word);
    }
    if let Ok(place) = EXCEPTIONS.binary_search_by_key(&word, |&(word, _)| word) {
        return Cow::Borrowed(EXCEPTIONS[place].1);
    }
    let mut stemming = Stemming::new(word);
    stemming.plural();
    if !INVARIANT_AFTER_1A.contains(&stemming.text()) {
        stemming.past_and_gerund();
        stemming.final_y();
        stemming.replace_in_r1(REPLACE_STEP_2);
        stemming.replace_in_r1(REPLACE_STEP_3);
        stemming.delete_in_r2();
        stemming.final_e_or_l();
    }
    let stem = stemming.text().to_ascii_lowercase();
    if stem == word { Cow::Borrowed(word) } else { Cow::Owned(stem) }
}

/// A word on its way to its stem. A `y` that is a consonant is written `Y`.
struct Stemming {
    letters: Vec<u8>,
    /// Start of the region after the first consonant that follows a vowel.
    r1: usize,
    /// The same, counted from `r1`.
    r2: usize,
}

impl Stemming {
    fn new(word: &str) -> Self {
        let mut letters = word.as_bytes().to_vec();
        for place in 0..letters.len() {
            if letters[place] == b'y' && (place == 0 || is_vowel(letters[place - 1])) {
                letters[place] = b'Y';
            }
        }
        let special = ["gener", "commun", "arsen"].iter().find(|prefix| word.starts_with(**prefix));
        let r1 = special.map_or_else(|| region(&letters, 0), |prefix| prefix.len());
        let r2 = region(&letters, r1);
        Self { letters, r1, r2 }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.letters).unwrap_or("")
    }

    fn ends(&self, suffix: &str) -> bool {
        self.letters.ends_with(suffix.as_bytes())
    }

    /// Replaces the last `count` letters.
    fn replace(&mut self, count: usize, by: &str) {
        self.letters.truncate(self.letters.len() - count);
        self.letters.extend_from_slice(by.as_bytes());
    }

    fn has_vowel_before(&self, end: usize) -> bool {
        self.letters.iter().take(end).any(|&letter| is_vowel(letter))
    }

    /// Step 1a.
    fn plural(&mut self) {
        let len = self.letters.len();
        if self.ends("sses") {
            self.replace(2, "");
        } else if self.ends("ied") || self.ends("ies") {
            self.replace(if len > 4 { 2 } else { 1 }, "");
        } else if self.ends("s") && !self.ends("us") && !self.ends("ss") && self.has_vowel_before(len - 2) {
            self.replace(1, "");
        }
    }

    /// Step 1b.
    fn past_and_gerund(&mut self) {
        let len = self.letters.len();
        for suffix in ["eedly", "eed"] {
            if self.ends(suffix) {
                if len - suffix.len() >= self.r1 {
                    self.replace(suffix.len(), "ee");
                }
                return;
            }
        }
        let Some(suffix) = ["ingly", "edly", "ing", "ed"].into_iter().find(|suffix| self.ends(suffix)) else {
            return;
        };
        if !self.has_vowel_before(len - suffix.len()) {
            return;
        }
        self.replace(suffix.len(), "");
        if self.ends("at") || self.ends("bl") || self.ends("iz") {
            self.replace(0, "e");
        } else if ends_double(&self.letters) {
            self.replace(1, "");
        } else if self.is_short() {
            self.replace(0, "e");
        }
    }

    /// Step 1c.
    fn final_y(&mut self) {
        let len = self.letters.len();
        if len > 2 && matches!(self.letters[len - 1], b'y' | b'Y') && !is_vowel(self.letters[len - 2]) {
            self.replace(1, "i");
        }
    }

    /// Steps 2 and 3: the longest matching suffix is replaced if it lies in R1 and its condition holds.
    fn replace_in_r1(&mut self, table: &[(&str, &str, Suffix)]) {
        let longest =
            table.iter().filter(|(suffix, _, _)| self.ends(suffix)).max_by_key(|(suffix, _, _)| suffix.len());
        let Some(&(suffix, by, condition)) = longest else { return };
        let start = self.letters.len() - suffix.len();
        let before = start.checked_sub(1).map(|place| self.letters[place]);
        let holds = match condition {
            Suffix::Always => true,
            Suffix::AfterL => before == Some(b'l'),
            Suffix::AfterLiEnding => before.is_some_and(|letter| b"cdeghkmnrt".contains(&letter)),
            Suffix::InR2 => start >= self.r2,
        };
        if start >= self.r1 && holds {
            self.replace(suffix.len(), by);
        }
    }

    /// Step 4.
    fn delete_in_r2(&mut self) {
        let longest =
            DELETE_IN_R2.iter().filter(|suffix| self.ends(suffix)).max_by_key(|suffix| suffix.len());
        let Some(suffix) = longest else { return };
        let start = self.letters.len() - suffix.len();
        let holds = *suffix != "ion" || start > 0 && matches!(self.letters[start - 1], b's' | b't');
        if start >= self.r2 && holds {
            self.replace(suffix.len(), "");
        }
    }

    /// Step 5.
    fn final_e_or_l(&mut self) {
        let len = self.letters.len();
        if self.ends("e") {
            let place = len - 1;
            if place >= self.r2 || (place >= self.r1 && !ends_short_syllable(&self.letters[..place])) {
                self.replace(1, "");
            }
        } else if self.ends("ll") && len > self.r2 {
            self.replace(1, "");
        }
    }

    fn is_short(&self) -> bool {
        self.r1 >= self.letters.len() && ends_short_syllable(&self.letters)
    }
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// The place after the first consonant that follows a vowel, from `start` on.
fn region(letters: &[u8], start: usize) -> usize {
    (start + 1..letters.len())
        .find(|&place| is_vowel(letters[place - 1]) && !is_vowel(letters[place]))
        .map_or(letters.len(), |place| place + 1)
}

fn ends_double(letters: &[u8]) -> bool {
    match letters {
        [.., before, last] => before == last && b"bdfgmnprt".contains(last),
        _ => false,
    }
}

/// A vowel between consonants of which the second is no w, x or Y; or a vowel at the beginning followed by a consonant.
fn ends_short_syllable(letters: &[u8]) -> bool {
    match letters {
        [vowel, last] => is_vowel(*vowel) && !is_vowel(*last),
        [.., before, vowel, last] => {
            !is_vowel(*before) && is_vowel(*vowel) && !is_vowel(*last) && !matches!(last, b'w' | b'x' | b'Y')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_have_the_stems_of_the_published_vocabulary() {
        let pairs = [
            ("consign", "consign"),
            ("consigned", "consign"),
            ("consistency", "consist"),
            ("consolation", "consol"),
            ("consolidate", "consolid"),
            ("conspicuously", "conspicu"),
            ("kneel", "kneel"),
            ("knitting", "knit"),
            ("knives", "knive"),
            ("generate", "generat"),
            ("generously", "generous"),
            ("communication", "communic"),
            ("skies", "sky"),
            ("dying", "die"),
            ("happiness", "happi"),
            ("national", "nation"),
            ("rationalize", "ration"),
            ("agreed", "agre"),
            ("hopping", "hop"),
            ("hoping", "hope"),
            ("relational", "relat"),
            ("succeed", "succeed"),
            ("gas", "gas"),
            ("this", "this"),
            ("gaps", "gap"),
            ("cries", "cri"),
            ("ties", "tie"),
            ("say", "say"),
            ("enjoy", "enjoy"),
            ("logically", "logic"),
            ("directories", "directori"),
            ("directory", "directori"),
            ("controlling", "control"),
            ("created", "creat"),
            ("creating", "creat"),
            ("parser", "parser"),
        ];
        for (word, expected) in pairs {
            assert_eq!(stem(word), expected, "{word}");
        }
    }

    proptest! {
        #[test]
        fn any_word_has_a_stem(word in "[a-z]{1,20}") {
            prop_assert!(!stem(&word).is_empty());
        }
    }
}
