//! The part of a result that the model reads. The journal has the whole result; this part fits the model's window.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use sandyard_memory::summary;
use sandyard_protocol::ModelPart;

use crate::shape::Shape;

/// Text of one result in the model's window: four to five thousand tokens.
const TEXT_BYTES: usize = 16 * 1024;

/// Cuts a result to the size that the window takes.
pub(crate) fn parts(parts: Vec<ModelPart>, number: u64) -> Vec<ModelPart> {
    let hint = format!("; `recall` with {{\"number\": {number}}} shows it");
    parts
        .into_iter()
        .map(|part| match part {
            ModelPart::Text { text } => ModelPart::Text { text: Shape::output(TEXT_BYTES).cut(&text, &hint) },
            picture @ ModelPart::Png { .. } => picture,
        })
        .collect()
}

/// The line of a result that tells most of it.
pub(crate) fn headline(parts: &[ModelPart]) -> String {
    let text = parts.iter().find_map(|part| match part {
        ModelPart::Text { text } => Some(text.as_str()),
        ModelPart::Png { .. } => None,
    });
    summary::headline(text.unwrap_or("a picture"))
}

/// A hash by which results are compared.
pub(crate) fn fingerprint(parts: &[ModelPart]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        match part {
            ModelPart::Text { text } => text.hash(&mut hasher),
            ModelPart::Png { base64 } => base64.hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<ModelPart> {
        vec![ModelPart::Text { text: text.into() }]
    }

    #[test]
    fn a_long_result_says_how_to_see_the_rest() {
        let long = "a line of output\n".repeat(5000);
        let shown = parts(text(&long), 57);
        let ModelPart::Text { text: shown } = &shown[0] else { panic!("no text") };
        assert!(shown.len() < TEXT_BYTES + 200 && shown.contains("\"number\": 57"), "{shown}");
    }

    #[test]
    fn the_headline_of_a_result_is_what_went_wrong() {
        assert_eq!(headline(&text("\nexit code 1\nmore\nerror: no such file\n")), "error: no such file");
        assert_eq!(headline(&[ModelPart::Png { base64: String::new() }]), "a picture");
    }

    #[test]
    fn results_are_told_apart() {
        assert_eq!(fingerprint(&text("a")), fingerprint(&text("a")));
        assert_ne!(fingerprint(&text("a")), fingerprint(&text("b")));
    }
}
