//! The weights of the embedding: a vocabulary of word pieces, and for each a scale and a row of signed bytes.

use std::borrow::Cow;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::codec::ByteReader;
use crate::embed::pieces::{PieceCounts, cut_word};
use crate::embed::vectors::{packed, packed_bytes};
use sandyard_memory::terms::parts;

/// Begins every file of weights.
const MAGIC: &[u8; 8] = b"SYvector";
/// Layout of the file.
const VERSION: u32 = 1;
/// Vectors of other sizes would not be a multiple of a register and are not made by the recipe.
const MOST_DIMENSIONS: usize = 1024;

/// Why a file can't be used as weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModelFlaw {
    /// The file is cut off, damaged or no file of weights.
    #[error("the weights of the embedding are damaged")]
    Damaged,
    /// The file has a layout that this version does not know.
    #[error("the weights of the embedding have an unknown layout")]
    UnknownLayout,
}

/// A static embedding.
#[derive(Debug)]
pub struct EmbeddingModel {
    bytes: Cow<'static, [u8]>,
    dimensions: usize,
    /// Numbers of the pieces. Pieces that continue a word begin with `##`.
    vocabulary: HashMap<Box<str>, u32, RandomState>,
    scales: Vec<f32>,
    rows: Range<usize>,
    fingerprint: u32,
}

impl EmbeddingModel {
    /// The model that ships with this crate (see `model/README.md`). Its eight megabytes are part of the program and are read from disk
    /// page by page when they are first used.
    ///
    /// # Errors
    ///
    /// The program file is damaged.
    pub fn shipped() -> Result<Self, ModelFlaw> {
        static WEIGHTS: &[u8] = include_bytes!("../../model/weights.bin");
        Self::read(WEIGHTS)
    }

    /// Reads weights, which stay where they are.
    ///
    /// # Errors
    ///
    /// The bytes are no weights, or not all of them.
    pub fn read(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, ModelFlaw> {
        let bytes = bytes.into();
        parse(&bytes).ok_or(ModelFlaw::Damaged)?.map(|parsed| Self {
            dimensions: parsed.dimensions,
            vocabulary: parsed.vocabulary,
            scales: parsed.scales,
            rows: parsed.rows,
            fingerprint: parsed.fingerprint,
            bytes,
        })
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub(crate) fn fingerprint(&self) -> u32 {
        self.fingerprint
    }

    /// Bytes of a stored vector.
    pub(crate) fn vector_bytes(&self) -> usize {
        packed_bytes(self.dimensions)
    }

    /// The vector of a text.
    pub(crate) fn vector_of(&self, text: &str) -> Vec<f32> {
        let mut counts = PieceCounts::default();
        sandyard_memory::terms::runs(text, |run| {
            let mut pieces = Vec::new();
            self.pieces_of_run(run, |piece| pieces.push(piece));
            counts.add(&pieces);
        });
        self.sum(&mut counts)
    }

    /// Calls `visit` with the pieces of a word or identifier.
    pub(crate) fn pieces_of_run(&self, run: &str, mut visit: impl FnMut(u32)) {
        if run.len() > sandyard_memory::terms::LONGEST_TERM_BYTES {
            return;
        }
        parts(run, |part| {
            // Single letters are variables and say nothing.
            if part.len() > 1 {
                cut_word(&part.to_lowercase(), |piece| self.vocabulary.get(piece).copied(), &mut visit);
            }
        });
    }

    /// The stored vector of counted pieces. Leaves the counts empty.
    pub(crate) fn vector(&self, counts: &mut PieceCounts) -> Vec<u8> {
        packed(&self.sum(counts))
    }

    fn sum(&self, counts: &mut PieceCounts) -> Vec<f32> {
        let mut sum = vec![0f32; self.dimensions];
        counts.drain(|piece, count| {
            let start = self.rows.start + piece as usize * self.dimensions;
            let row = &self.bytes[start..start + self.dimensions];
            // A piece that occurs often says hardly more than one that occurs twice.
            let weight = self.scales[piece as usize] * (count as f32).sqrt();
            for (sum, &byte) in sum.iter_mut().zip(row) {
                *sum += weight * f32::from(byte as i8);
            }
        });
        sum
    }
}

struct ParsedModel {
    dimensions: usize,
    vocabulary: HashMap<Box<str>, u32, RandomState>,
    scales: Vec<f32>,
    rows: Range<usize>,
    fingerprint: u32,
}

/// magic, version, pieces, dimensions, bytes of the vocabulary, CRC-32 of the rest; then pieces separated by line ends, scales, rows.
fn parse(bytes: &[u8]) -> Option<Result<ParsedModel, ModelFlaw>> {
    let mut reader = ByteReader::new(bytes);
    if reader.raw(MAGIC.len())? != MAGIC {
        return None;
    }
    if u32::from_le_bytes(reader.array()?) != VERSION {
        return Some(Err(ModelFlaw::UnknownLayout));
    }
    let pieces = u32::from_le_bytes(reader.array()?) as usize;
    let dimensions = u32::from_le_bytes(reader.array()?) as usize;
    let vocabulary_bytes = u32::from_le_bytes(reader.array()?) as usize;
    let fingerprint = u32::from_le_bytes(reader.array()?);
    let head = MAGIC.len() + 20;
    let rows = head + vocabulary_bytes + pieces.checked_mul(4)?..bytes.len();
    if !(1..=MOST_DIMENSIONS).contains(&dimensions) || rows.len() != pieces.checked_mul(dimensions)? {
        return None;
    }
    if crc32fast::hash(bytes.get(head..)?) != fingerprint {
        return None;
    }
    let text = std::str::from_utf8(reader.raw(vocabulary_bytes)?).ok()?;
    let vocabulary: HashMap<Box<str>, u32, RandomState> = text.split('\n').map(Into::into).zip(0..).collect();
    let scales: Vec<f32> =
        (0..pieces).map(|_| reader.array().map(f32::from_le_bytes)).collect::<Option<_>>()?;
    if vocabulary.len() != pieces || scales.iter().any(|scale| !scale.is_finite()) {
        return None;
    }
    Some(Ok(ParsedModel { dimensions, vocabulary, scales, rows, fingerprint }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::vectors::{WideVector, packed};
    use proptest::prelude::*;

    #[test]
    fn the_shipped_model_knows_what_code_does() {
        let model = EmbeddingModel::shipped().unwrap();
        let question = WideVector::new(&model.vector_of("Delete a directory and everything in it"));
        let cosine = |code: &str| question.cosines(&packed(&model.vector_of(code)))[0];
        let removes =
            cosine("def rmtree(path): for entry in os.scandir(path): os.unlink(entry.path); os.rmdir(path)");
        let others = [
            "def mean(values): return sum(values) / len(values)",
            "def send_mail(address, subject): smtp.send(address)",
        ];
        assert!(others.iter().all(|other| cosine(other) + 0.1 < removes), "{removes}");
    }

    #[test]
    fn damaged_weights_are_refused() {
        static WEIGHTS: &[u8] = include_bytes!("../../model/weights.bin");
        for place in [0, 9, 14, 18, 26, 40, 300_000, WEIGHTS.len() - 1] {
            let mut bytes = WEIGHTS.to_vec();
            bytes[place] ^= 1;
            assert!(EmbeddingModel::read(bytes).is_err(), "{place}");
        }
        assert_eq!(EmbeddingModel::read(&WEIGHTS[..WEIGHTS.len() - 5]).err(), Some(ModelFlaw::Damaged));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut file = MAGIC.to_vec();
            file.extend(1u32.to_le_bytes());
            file.extend(bytes);
            prop_assert!(EmbeddingModel::read(file).is_err());
        }
    }
}
