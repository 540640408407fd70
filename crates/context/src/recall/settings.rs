//! How much each part of a score counts.

/// Weights of the parts of a score. Learnt on a development split; see `bench/README.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusionSettings {
    /// Weight of the share of the question that a document answers by its words.
    pub lexical: f32,
    /// Weight of the cosine between question and document.
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
    /// Of the first ten passages, at least so many are the best by meaning alone: a question may share no word with its answer.
    pub reserved: usize,
    /// Added to the newest source, falling to 0 for the oldest.
    pub recency_bonus: f32,
}

impl Default for FusionSettings {
    fn default() -> Self {
        Self {
            lexical: 1.0,
            semantic: 0.75,
            pair_weight: 0.25,
            definition_bonus: 0.08,
            file_bonus: 0.03,
            test_penalty: 0.03,
            repetition_penalty: 0.01,
            reserved: 3,
            recency_bonus: 0.0,
        }
    }
}
