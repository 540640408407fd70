//! Estimates the tokens of a text without the model's own tokenizer.
//!
//! The estimate is meant to be a little high. The provider's count for the previous call corrects it, see `Correction`.

use sandyard_protocol::ModelPart;

/// Tokens around each message and call: role, separators, ids.
pub(crate) const PER_MESSAGE: u64 = 8;
/// Tokens of a picture of the desktop: providers count 1,000 to 1,600 for 1280 × 800.
pub(crate) const PER_PICTURE: u64 = 1600;

/// Tokens of a text. English has 4.2 bytes per token, code 3.3, other scripts 2 to 3.
pub(crate) fn of_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text.len() as u64 - ascii;
    (ascii * 10).div_ceil(33) + other.div_ceil(2)
}

/// Tokens of the parts of a message.
pub(crate) fn of_parts(parts: &[ModelPart]) -> u64 {
    parts
        .iter()
        .map(|part| match part {
            ModelPart::Text { text } => of_text(text),
            ModelPart::Png { .. } => PER_PICTURE,
        })
        .sum()
}

/// The provider's count as a percentage of the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Correction(u64);

impl Default for Correction {
    fn default() -> Self {
        Self(100)
    }
}

impl Correction {
    /// Learns from a call. A ratio beyond these bounds means that the provider counts other things, so it is clamped.
    pub(crate) fn learn(&mut self, estimated: u64, counted: u64) {
        if counted > 0 && estimated > 0 {
            self.0 = (counted.saturating_mul(100) / estimated).clamp(60, 200);
        }
    }

    /// Returns the estimate whose correction is this count.
    pub(crate) fn undo(self, counted: u64) -> u64 {
        counted.saturating_mul(100) / self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_of_the_right_size() {
        assert_eq!(of_text(""), 0);
        let words = of_text(&"word ".repeat(1000));
        assert!((1000..2000).contains(&words), "{words}");
        assert!(of_text("日本語") >= 4);
    }

    #[test]
    fn a_provider_that_counts_otherwise_corrects_it_within_bounds() {
        let mut correction = Correction::default();
        assert_eq!(correction.undo(1000), 1000);
        correction.learn(1000, 800);
        assert_eq!(correction.undo(800), 1000);
        correction.learn(1000, 0);
        assert_eq!(correction.undo(800), 1000);
        correction.learn(10, 1_000_000);
        assert_eq!(correction.undo(2000), 1000);
    }
}
