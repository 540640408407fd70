//! The known word nearest to a mistaken one.

/// The known word that the mistaken one was most likely meant to be; `None` if none is near.
pub(crate) fn nearest<'a>(mistaken: &str, known: &[&'a str]) -> Option<&'a str> {
    if mistaken.len() > 64 {
        return None;
    }
    let folded = mistaken.to_lowercase().replace('-', "_");
    let distances = known.iter().map(|word| (distance(&folded, word), *word));
    let (distance, word) = distances.min_by_key(|(distance, _)| *distance)?;
    let prefix = folded.len() >= 3 && (word.starts_with(&folded) || folded.starts_with(word));
    (distance <= word.len().max(folded.len()) / 3 || prefix).then_some(word)
}

/// The number of letters to insert, remove, replace or swap with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (row, cells) in rows.iter_mut().enumerate() {
        cells[0] = row;
    }
    rows[0] = (0..=right.len()).collect();
    for row in 1..=left.len() {
        for column in 1..=right.len() {
            let same = left[row - 1] == right[column - 1];
            let replaced = rows[row - 1][column - 1] + usize::from(!same);
            let mut best = replaced.min(rows[row - 1][column] + 1).min(rows[row][column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && left[row - 1] == right[column - 2]
                && left[row - 2] == right[column - 1];
            if swapped {
                best = best.min(rows[row - 2][column - 2] + 1);
            }
            rows[row][column] = best;
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word() {
        let known = ["python", "typescript", "shell", "gui", "session"];
        for (mistaken, meant) in [
            ("pyhton", "python"),
            ("Shell", "shell"),
            ("shel", "shell"),
            ("sesion", "session"),
            ("type-script", "typescript"),
            ("typescripts", "typescript"),
        ] {
            assert_eq!(nearest(mistaken, &known), Some(meant), "{mistaken}");
        }
        for mistaken in ["", "ruby", "x", &"python".repeat(1000)] {
            assert_eq!(nearest(mistaken, &known), None, "{mistaken}");
        }
    }
}
