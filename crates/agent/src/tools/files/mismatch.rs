//! Explains why an edit did not apply so that the next attempt succeeds: where the text occurs several times, or which place is most
//! similar.

use sandyard_protocol::Edit;

use super::view;

/// Occurrences that an explanation lists.
const MAX_PLACES: usize = 8;
/// Lines shown before and after the most similar place.
const SIMILAR_LINES: u64 = 3;

/// Explains the first edit that does not apply. Each edit is tried after those before it.
pub(super) fn explain(path: &str, text: &str, edits: &[Edit]) -> String {
    let mut text = text.to_owned();
    for (index, edit) in edits.iter().enumerate() {
        let which =
            if edits.len() == 1 { "`old`".to_owned() } else { format!("`old` of edit {}", index + 1) };
        let places: Vec<usize> = text.match_indices(&edit.old).map(|(place, _)| place).collect();
        match places.as_slice() {
            [place] => text.replace_range(*place..*place + edit.old.len(), &edit.new),
            [] => {
                return format!(
                    "{path} was not changed: {which} is not in it. {}",
                    nearest(&text, &edit.old)
                );
            }
            places => {
                let lines: Vec<String> = places
                    .iter()
                    .take(MAX_PLACES)
                    .map(|place| (1 + text[..*place].matches('\n').count()).to_string())
                    .collect();
                return format!(
                    "{path} was not changed: {which} is in it {} times, in lines {}. Take in more lines around the place you mean.",
                    places.len(),
                    lines.join(", ")
                );
            }
        }
    }
    format!(
        "{path} was not changed: it was written by somebody else at the same time. View it and try again."
    )
}

/// Shows the place that is most similar to the text.
fn nearest(text: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let Some(first) = wanted.first() else { return "It is only white space.".into() };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let same = |start: usize| {
        let there = lines[start..].iter().filter(|line| !line.is_empty());
        there.zip(&wanted).take_while(|(there, wanted)| there == wanted).count()
    };
    let best = (0..lines.len()).filter(|start| lines[*start] == *first).max_by_key(|start| same(*start));
    let Some(best) = best.or_else(|| most_alike(&lines, first)) else {
        return "Nothing in it looks like that. View the file and copy the text from there.".into();
    };
    let line = best as u64 + 1;
    let last = line + wanted.len() as u64 - 1 + SIMILAR_LINES;
    let (shown, _) = view::lines(text, line.saturating_sub(SIMILAR_LINES).max(1), last);
    let why = if same(best) == wanted.len() {
        "It is there with other white space"
    } else {
        "What looks most like it"
    };
    format!("{why} (the number and the tab before each line are not part of the file):\n{shown}")
}

/// The line that shares most of its words.
fn most_alike(lines: &[&str], wanted: &str) -> Option<usize> {
    let words: Vec<&str> =
        wanted.split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.len() > 1).collect();
    let shared = |line: &str| words.iter().filter(|word| line.contains(**word)).count();
    let (best, count) = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (index, shared(line)))
        .max_by_key(|(_, count)| *count)?;
    (count * 2 > words.len()).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str) -> Vec<Edit> {
        vec![Edit { old: old.into(), new: "new".into() }]
    }

    const TEXT: &str = "fn main() {\n    let total = add(1, 2);\n    print(total);\n}\n\nfn test() {\n    print(total);\n}\n";

    #[test]
    fn several_places_are_named() {
        let said = explain("a.rs", TEXT, &edit("    print(total);"));
        assert!(said.contains("2 times, in lines 3, 7"), "{said}");
    }

    #[test]
    fn other_white_space_and_near_misses_are_shown() {
        let indented = explain("a.rs", TEXT, &edit("  let total = add(1, 2);\n  print(total);"));
        assert!(
            indented.contains("other white space") && indented.contains("2\t    let total"),
            "{indented}"
        );
        let near = explain("a.rs", TEXT, &edit("let total = add(1, 3);"));
        assert!(near.contains("looks most like it") && near.contains("add(1, 2)"), "{near}");
        let far = explain("a.rs", TEXT, &edit("class Window extends Frame"));
        assert!(far.contains("Nothing in it looks like that"), "{far}");
    }

    #[test]
    fn a_later_edit_is_seen_after_those_before_it() {
        let edits = vec![
            Edit { old: "fn main".into(), new: "fn start".into() },
            Edit { old: "fn main".into(), new: "x".into() },
        ];
        assert!(explain("a.rs", TEXT, &edits).contains("`old` of edit 2"));
    }
}
