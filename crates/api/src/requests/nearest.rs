//! Finds the known word that is nearest to a mistyped one.

/// Returns the known word that the mistaken one most likely stands for; `None` if none is near.
///
/// The distance counts letters that were inserted, removed, replaced or swapped with their neighbour.
/// Case and the difference between `-` and `_` do not count.
pub fn nearest<'a>(mistaken: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance takes quadratic time, and the word comes from a client.
    if mistaken.len() > 64 {
        return None;
    }
    let fold = |word: &str| word.to_lowercase().replace('-', "_");
    let folded = fold(mistaken);
    let distances = known.into_iter().map(|word| (strsim::osa_distance(&folded, &fold(word)), word));
    let (distance, word) = distances.min_by_key(|(distance, _)| *distance)?;
    let prefix = folded.len() >= 3 && (fold(word).starts_with(&folded) || folded.starts_with(&fold(word)));
    (distance <= word.len().max(folded.len()) / 3 || prefix).then_some(word)
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
            assert_eq!(nearest(mistaken, known), Some(meant), "{mistaken}");
        }
        for mistaken in ["", "ruby", "x", &"python".repeat(1000)] {
            assert_eq!(nearest(mistaken, known), None, "{mistaken}");
        }
    }
}
