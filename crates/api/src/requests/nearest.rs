//! The known word nearest to a mistaken one.

/// Returns the known word that the mistaken one most likely stands for; `None` if none is near.
///
/// The distance counts letters that were inserted, removed, replaced or swapped with their neighbour.
pub(crate) fn nearest<'a>(mistaken: &str, known: &[&'a str]) -> Option<&'a str> {
    if mistaken.len() > 64 {
        return None;
    }
    let folded = mistaken.to_lowercase().replace('-', "_");
    let distances = known.iter().map(|word| (strsim::osa_distance(&folded, word), *word));
    let (distance, word) = distances.min_by_key(|(distance, _)| *distance)?;
    let prefix = folded.len() >= 3 && (word.starts_with(&folded) || folded.starts_with(word));
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
            assert_eq!(nearest(mistaken, &known), Some(meant), "{mistaken}");
        }
        for mistaken in ["", "ruby", "x", &"python".repeat(1000)] {
            assert_eq!(nearest(mistaken, &known), None, "{mistaken}");
        }
    }
}
