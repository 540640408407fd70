//! The tables of the stemmer.

/// When a suffix is replaced, beside lying in R1.
#[derive(Debug, Clone, Copy)]
pub(super) enum Suffix {
    Always,
    /// Only after the letter `l`.
    AfterL,
    /// Only after one of the letters before which `li` is a suffix.
    AfterLiEnding,
    /// Only if it lies in R2 too.
    InR2,
}

/// Words whose stem no rule gives. Sorted by word.
pub(super) const EXCEPTIONS: [(&str, &str); 18] = [
    ("andes", "andes"),
    ("atlas", "atlas"),
    ("bias", "bias"),
    ("cosmos", "cosmos"),
    ("dying", "die"),
    ("early", "earli"),
    ("gently", "gentl"),
    ("howe", "howe"),
    ("idly", "idl"),
    ("lying", "lie"),
    ("news", "news"),
    ("only", "onli"),
    ("singly", "singl"),
    ("skies", "sky"),
    ("skis", "ski"),
    ("sky", "sky"),
    ("tying", "tie"),
    ("ugly", "ugli"),
];

/// Words that end with the removal of a plural.
pub(super) const INVARIANT_AFTER_1A: [&str; 8] =
    ["inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"];

/// Step 2: suffix, replacement, condition.
pub(super) const REPLACE_STEP_2: &[(&str, &str, Suffix)] = &[
    ("tional", "tion", Suffix::Always),
    ("enci", "ence", Suffix::Always),
    ("anci", "ance", Suffix::Always),
    ("abli", "able", Suffix::Always),
    ("entli", "ent", Suffix::Always),
    ("izer", "ize", Suffix::Always),
    ("ization", "ize", Suffix::Always),
    ("ational", "ate", Suffix::Always),
    ("ation", "ate", Suffix::Always),
    ("ator", "ate", Suffix::Always),
    ("alism", "al", Suffix::Always),
    ("aliti", "al", Suffix::Always),
    ("alli", "al", Suffix::Always),
    ("fulness", "ful", Suffix::Always),
    ("ousli", "ous", Suffix::Always),
    ("ousness", "ous", Suffix::Always),
    ("iveness", "ive", Suffix::Always),
    ("iviti", "ive", Suffix::Always),
    ("biliti", "ble", Suffix::Always),
    ("bli", "ble", Suffix::Always),
    ("ogi", "og", Suffix::AfterL),
    ("fulli", "ful", Suffix::Always),
    ("lessli", "less", Suffix::Always),
    ("li", "", Suffix::AfterLiEnding),
];

/// Step 3: suffix, replacement, condition.
pub(super) const REPLACE_STEP_3: &[(&str, &str, Suffix)] = &[
    ("tional", "tion", Suffix::Always),
    ("ational", "ate", Suffix::Always),
    ("alize", "al", Suffix::Always),
    ("icate", "ic", Suffix::Always),
    ("iciti", "ic", Suffix::Always),
    ("ical", "ic", Suffix::Always),
    ("ful", "", Suffix::Always),
    ("ness", "", Suffix::Always),
    ("ative", "", Suffix::InR2),
];

/// Step 4: suffixes that are deleted in R2.
pub(super) const DELETE_IN_R2: [&str; 18] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ism", "ate", "iti",
    "ous", "ive", "ize", "ion",
];
