//! `.gitignore` files: patterns of one folder, and whether they exclude a path below it. For all who walk over a project.

/// Patterns read from one file. More are no rules that people keep.
const MAX_PATTERNS: usize = 2000;
/// Longest pattern.
const MAX_PATTERN_BYTES: usize = 500;
/// Steps of one comparison. A pattern of many stars could otherwise take exponential time.
const MAX_STEPS: usize = 10_000;

/// One line of a `.gitignore`.
#[derive(Clone, Debug)]
struct IgnorePattern {
    glob: Vec<u8>,
    negated: bool,
    folders_only: bool,
    /// True if the pattern names a path from its folder, not a name anywhere below.
    anchored: bool,
}

/// The patterns of one folder.
#[derive(Clone, Debug)]
pub struct IgnoreRules {
    /// Path of the folder, empty or with a slash at its end.
    base: String,
    patterns: Vec<IgnorePattern>,
}

impl IgnoreRules {
    /// Reads a `.gitignore` of the folder `base`.
    pub fn parse(base: &str, text: &str) -> Self {
        let patterns = text.lines().filter_map(parse_line).take(MAX_PATTERNS).collect();
        Self { base: base.to_owned(), patterns }
    }

    /// `Some(true)` if the last pattern that fits excludes the path, `Some(false)` if it includes it again.
    pub fn decide(&self, path: &str, is_folder: bool) -> Option<bool> {
        let below = path.strip_prefix(&self.base)?;
        let name = below.rsplit('/').next().unwrap_or(below);
        let fits = |pattern: &&IgnorePattern| {
            let text = if pattern.anchored { below } else { name };
            (is_folder || !pattern.folders_only) && matches(&pattern.glob, text.as_bytes())
        };
        self.patterns.iter().rev().find(fits).map(|pattern| !pattern.negated)
    }
}

fn parse_line(line: &str) -> Option<IgnorePattern> {
    let line = line.trim_end();
    if line.is_empty() || line.starts_with('#') || line.len() > MAX_PATTERN_BYTES {
        return None;
    }
    let (negated, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
    let (folders_only, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
    let anchored = line.contains('/');
    let glob = line.trim_start_matches('/').as_bytes().to_vec();
    (!glob.is_empty()).then_some(IgnorePattern { glob, negated, folders_only, anchored })
}

/// Compares with `*` (not over slashes), `**`, `?`, `[…]` and `\`, without recursion: a star that fails is tried again
/// one byte further, with bounded steps.
fn matches(glob: &[u8], text: &[u8]) -> bool {
    let mut pending = vec![(0_usize, 0_usize)];
    let mut steps = 0;
    while let Some((mut at, mut place)) = pending.pop() {
        loop {
            steps += 1;
            if steps > MAX_STEPS {
                return false;
            }
            match glob.get(at) {
                None if place == text.len() => return true,
                None => break,
                Some(b'*') if glob.get(at + 1) == Some(&b'*') => {
                    let after = if glob.get(at + 2) == Some(&b'/') { at + 3 } else { at + 2 };
                    if place < text.len() {
                        // `**` takes one more byte; it may end only at a slash if one follows it.
                        pending.push((at, place + 1));
                    }
                    let boundary = after == at + 2 || place == 0 || text.get(place - 1) == Some(&b'/');
                    if !boundary {
                        break;
                    }
                    at = after;
                }
                Some(b'*') => {
                    if text.get(place).is_some_and(|byte| *byte != b'/') {
                        pending.push((at, place + 1));
                    }
                    at += 1;
                }
                Some(b'?') if text.get(place).is_some_and(|byte| *byte != b'/') => {
                    (at, place) = (at + 1, place + 1)
                }
                Some(b'[') => match class(&glob[at..], text.get(place).copied()) {
                    Some(length) => (at, place) = (at + length, place + 1),
                    None => break,
                },
                Some(b'\\') if glob.get(at + 1) == text.get(place) && place < text.len() => {
                    (at, place) = (at + 2, place + 1)
                }
                Some(byte) if text.get(place) == Some(byte) => (at, place) = (at + 1, place + 1),
                Some(_) => break,
            }
        }
    }
    false
}

/// Length of the class at the start of `glob` if the byte is in it.
fn class(glob: &[u8], byte: Option<u8>) -> Option<usize> {
    let byte = byte.filter(|byte| *byte != b'/')?;
    let end = glob.iter().skip(2).position(|letter| *letter == b']')? + 2;
    let inner = &glob[1..end];
    let (negated, inner) = match inner.first() {
        Some(b'!' | b'^') => (true, &inner[1..]),
        _ => (false, inner),
    };
    let mut found = inner.contains(&byte);
    for range in inner.windows(3).filter(|range| range[1] == b'-') {
        found |= (range[0]..=range[2]).contains(&byte);
    }
    (found != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_work_as_in_git() {
        let rules = IgnoreRules::parse(
            "",
            "*.log\n!keep.log\n/only\nfolder/\na/**/z\ndoc/*.txt\n[ab].c\n\\#x\n**/deep\n",
        );
        let cases: &[(&str, bool, Option<bool>)] = &[
            ("x.log", false, Some(true)),
            ("sub/x.log", false, Some(true)),
            ("sub/keep.log", false, Some(false)),
            ("only", false, Some(true)),
            ("sub/only", false, None),
            ("folder", true, Some(true)),
            ("folder", false, None),
            ("a/z", false, Some(true)),
            ("a/b/c/z", false, Some(true)),
            ("a/bz", false, None),
            ("doc/x.txt", false, Some(true)),
            ("doc/sub/x.txt", false, None),
            ("b.c", false, Some(true)),
            ("c.c", false, None),
            ("#x", false, Some(true)),
            ("q/w/deep", true, Some(true)),
        ];
        for (path, is_folder, expected) in cases {
            assert_eq!(rules.decide(path, *is_folder), *expected, "{path}");
        }
        assert_eq!(IgnoreRules::parse("sub/", "x").decide("x", false), None);
    }

    #[test]
    fn many_stars_take_bounded_time() {
        let rules = IgnoreRules::parse("", &"*a".repeat(100));
        assert_eq!(rules.decide(&"a".repeat(90), false), None);
    }

    proptest! {
        #[test]
        fn any_pattern_is_harmless(pattern in "[a-c*?/\\[\\]!\\\\]{0,20}", path in "[a-c/]{0,20}") {
            IgnoreRules::parse("", &pattern).decide(&path, false);
        }
    }
}
