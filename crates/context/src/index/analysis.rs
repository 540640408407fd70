//! From a chunk to what the index stores of it: terms with impacts, and a vector.
//!
//! Words are looked up in a cache of everything seen since the last reset, because splitting and stemming a word costs thirty times as
//! much as finding it again. The cache lives as long as a fresh segment, which bounds its size.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::embed::{EmbeddingModel, PieceCounts};
use sandyard_memory::terms::{runs, terms_of_run};

/// How terms are weighted. Learnt on a development split; see `bench/README.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LexicalSettings {
    /// How often a word of the name counts, compared with a word of the text.
    pub name_weight: f32,
    /// The same for words of the path.
    pub path_weight: f32,
    /// How fast repetitions of a term stop to count (`k1` of BM25).
    pub saturation: f32,
    /// How much long chunks are held back (`b` of BM25), 0 to 1.
    pub length_penalty: f32,
    /// Words of a usual chunk, to which lengths are compared. A constant and not the average of the index: scores of different segments must
    /// be comparable.
    pub usual_words: f32,
}

impl Default for LexicalSettings {
    fn default() -> Self {
        Self { name_weight: 10.0, path_weight: 2.0, saturation: 3.0, length_penalty: 0.85, usual_words: 60.0 }
    }
}

impl LexicalSettings {
    /// Impacts of an index depend on these, so an index made with others is made again.
    pub(crate) fn fingerprint(&self) -> u32 {
        let values =
            [self.name_weight, self.path_weight, self.saturation, self.length_penalty, self.usual_words];
        crc32fast::hash(&values.map(f32::to_le_bytes).concat())
    }
}

/// The three texts of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkFields<'t> {
    pub(crate) text: &'t str,
    pub(crate) name: &'t str,
    pub(crate) path: &'t str,
}

/// What a field counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldUse {
    Words,
    WordsAndMeaning,
}

/// Turns chunks into terms and vectors. Term numbers are its own, until the next reset.
#[derive(Debug, Default)]
pub(crate) struct ChunkAnalyser {
    settings: LexicalSettings,
    terms: HashMap<Box<str>, u32, RandomState>,
    runs: HashMap<Box<str>, AnalysedRun, RandomState>,
    run_terms: Vec<u32>,
    run_pieces: Vec<u32>,
    /// Weighted frequency of each term in the present chunk; 0 between chunks.
    weights: Vec<f32>,
    touched: Vec<u32>,
    pieces: PieceCounts,
}

/// Terms and word pieces of a run, as ranges of the two lists.
#[derive(Debug, Clone, Copy)]
struct AnalysedRun {
    terms: (u32, u32),
    pieces: (u32, u32),
}

impl ChunkAnalyser {
    pub(crate) fn new(settings: LexicalSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Analyses a chunk. `visit` gets the number of each term and its impact.
    pub(crate) fn analyse(
        &mut self,
        fields: ChunkFields<'_>,
        model: Option<&EmbeddingModel>,
        mut visit: impl FnMut(u32, u8),
    ) -> Option<Vec<u8>> {
        let LexicalSettings { name_weight, path_weight, .. } = self.settings;
        // Words of a path would outweigh the meaning of a short line; the path of a definition belongs to its meaning.
        let path_means = if fields.name.is_empty() { FieldUse::Words } else { FieldUse::WordsAndMeaning };
        // The path is as long for every chunk of a file, so it says nothing about the length of this one.
        self.count(fields.path, path_weight, path_means, model);
        let words = self.count(fields.text, 1.0, FieldUse::WordsAndMeaning, model)
            + self.count(fields.name, name_weight, FieldUse::WordsAndMeaning, model);
        let LexicalSettings { saturation, length_penalty, usual_words, .. } = self.settings;
        let held_back = saturation * (1.0 - length_penalty + length_penalty * words as f32 / usual_words);
        for &term in &self.touched {
            let frequency = std::mem::take(&mut self.weights[term as usize]);
            let impact = frequency / (frequency + held_back) * 255.0;
            visit(term, impact.round().clamp(1.0, 255.0) as u8);
        }
        self.touched.clear();
        model.map(|model| model.vector(&mut self.pieces))
    }

    pub(crate) fn term_number(&self, term: &str) -> Option<u32> {
        self.terms.get(term).copied()
    }

    /// All terms with their numbers, in no order.
    pub(crate) fn terms(&self) -> impl Iterator<Item = (&str, u32)> {
        self.terms.iter().map(|(term, &number)| (&**term, number))
    }

    /// Counts the terms and pieces of one field. Returns the number of its terms.
    fn count(&mut self, text: &str, weight: f32, used: FieldUse, model: Option<&EmbeddingModel>) -> usize {
        let mut count = 0;
        let mut analyse = |run: &str| {
            let analysed = match self.runs.get(run) {
                Some(&analysed) => analysed,
                None => {
                    let analysed =
                        learn_run(run, model, &mut self.terms, &mut self.run_terms, &mut self.run_pieces);
                    self.runs.insert(run.into(), analysed);
                    self.weights.resize(self.terms.len(), 0.0);
                    analysed
                }
            };
            let terms = &self.run_terms[analysed.terms.0 as usize..analysed.terms.1 as usize];
            count += terms.len();
            for &term in terms {
                let frequency = &mut self.weights[term as usize];
                if *frequency == 0.0 {
                    self.touched.push(term);
                }
                *frequency += weight;
            }
            if model.is_some() && used == FieldUse::WordsAndMeaning {
                self.pieces.add(&self.run_pieces[analysed.pieces.0 as usize..analysed.pieces.1 as usize]);
            }
        };
        runs(text, &mut analyse);
        count
    }
}

fn learn_run(
    run: &str,
    model: Option<&EmbeddingModel>,
    terms: &mut HashMap<Box<str>, u32, RandomState>,
    run_terms: &mut Vec<u32>,
    run_pieces: &mut Vec<u32>,
) -> AnalysedRun {
    let starts = (run_terms.len() as u32, run_pieces.len() as u32);
    terms_of_run(run, |term| {
        let next = terms.len() as u32;
        let known = terms.get(term).copied();
        run_terms.push(known.unwrap_or_else(|| *terms.entry(term.into()).or_insert(next)));
    });
    if let Some(model) = model {
        model.pieces_of_run(run, |piece| run_pieces.push(piece));
    }
    AnalysedRun { terms: (starts.0, run_terms.len() as u32), pieces: (starts.1, run_pieces.len() as u32) }
}
