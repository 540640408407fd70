//! How much each part of a score counts.

/// Weights of the parts of a score. Learnt on a development split; see `bench/README.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusionSettings {
    /// Weight of the score by words.
    pub lexical: f32,
    /// Weight of the score by meaning.
    pub semantic: f32,
    /// Weight of two neighbouring words written as one, compared with a word of the question.
    pub pair_weight: f32,
    /// Added if the name of a definition is in the question.
    pub definition_bonus: f32,
    /// Added if the name of the file is in the question.
    pub file_bonus: f32,
    /// Subtracted from tests and examples, unless the question is about them.
    pub test_penalty: f32,
    /// Subtracted for each better passage of the same source.
    pub repetition_penalty: f32,
    /// Added to the newest source, falling to 0 for the oldest.
    pub recency_bonus: f32,
}

impl Default for FusionSettings {
    fn default() -> Self {
        Self {
            lexical: 1.0,
            semantic: 1.0,
            pair_weight: 0.5,
            definition_bonus: 1.0,
            file_bonus: 0.3,
            test_penalty: 0.5,
            repetition_penalty: 0.2,
            recency_bonus: 0.0,
        }
    }
}
