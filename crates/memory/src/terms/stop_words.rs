//! Words that say nothing about their text. Sorted, because they are found by binary search.

/// English function words. Words that are also keywords with a meaning in code (`import`, `class`, `return`) are not among them.
const STOP_WORDS: [&str; 112] = [
    "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "below", "both", "but", "by", "can", "cannot", "could", "did",
    "do", "does", "doing", "during", "each", "for", "from", "further", "had", "has", "have", "having", "he",
    "her", "here", "him", "his", "how", "if", "in", "into", "is", "it", "its", "itself", "just", "may", "me",
    "might", "more", "most", "must", "my", "no", "nor", "not", "now", "of", "on", "only", "or", "other",
    "our", "over", "own", "same", "she", "should", "so", "some", "such", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "until",
    "up", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whose", "why",
    "will", "with", "would", "you", "your", "yours",
];

/// True for a lower-case word that is not worth searching for.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(
            is_stop_word("the") && is_stop_word("about") && is_stop_word("yours") && !is_stop_word("file")
        );
    }
}
