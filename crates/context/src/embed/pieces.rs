//! Words as pieces of the vocabulary.

/// A longer word is data.
const LONGEST_WORD_BYTES: usize = 64;

/// Cuts a word into the longest known pieces, from the front. A word with a part that is unknown has no pieces.
pub(super) fn cut_word(word: &str, number: impl Fn(&str) -> Option<u32>, visit: &mut impl FnMut(u32)) {
    if word.len() > LONGEST_WORD_BYTES {
        return;
    }
    let mut found = Vec::new();
    let mut start = 0;
    let mut candidate = String::with_capacity(word.len() + 2);
    while start < word.len() {
        let mut end = word.len();
        let piece = loop {
            candidate.clear();
            candidate.push_str(if start > 0 { "##" } else { "" });
            candidate.push_str(&word[start..end]);
            if let Some(piece) = number(&candidate) {
                break piece;
            }
            end = word.floor_char_boundary(end - 1);
            if end <= start {
                return;
            }
        };
        found.push(piece);
        start = end;
    }
    found.into_iter().for_each(visit);
}

/// How often each piece occurs in a text.
#[derive(Debug, Default)]
pub(crate) struct PieceCounts {
    counts: Vec<u32>,
    touched: Vec<u32>,
}

impl PieceCounts {
    pub(crate) fn add(&mut self, pieces: &[u32]) {
        for &piece in pieces {
            let place = piece as usize;
            if place >= self.counts.len() {
                self.counts.resize(place + 1, 0);
            }
            if self.counts[place] == 0 {
                self.touched.push(piece);
            }
            self.counts[place] += 1;
        }
    }

    /// Passes each piece and its count to `visit`, and forgets all.
    pub(super) fn drain(&mut self, mut visit: impl FnMut(u32, u32)) {
        for piece in self.touched.drain(..) {
            visit(piece, std::mem::take(&mut self.counts[piece as usize]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_known_pieces_are_taken() {
        let known = ["un", "##aff", "##able", "##a", "unaff"];
        let number = |piece: &str| known.iter().position(|known| *known == piece).map(|place| place as u32);
        let cut = |word| {
            let mut found = Vec::new();
            cut_word(word, number, &mut |piece| found.push(piece));
            found
        };
        assert_eq!(cut("unaffable"), [4, 2]);
        assert_eq!(cut("una"), [0, 3]);
        assert_eq!(cut("unx"), Vec::<u32>::new());
        assert_eq!(cut("é"), Vec::<u32>::new());
    }
}
