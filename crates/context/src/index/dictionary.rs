//! The sorted terms of a segment, each with its postings. Every sixteenth term is written whole, the others as what differs from the
//! term before.

use crate::codec::{ByteReader, ByteWriter};
use crate::index::postings::Postings;

/// Terms between two that are written whole.
const BLOCK_TERMS: usize = 16;

/// Writes terms in ascending order.
#[derive(Debug, Default)]
pub(crate) struct DictionaryWriter {
    terms: ByteWriter,
    postings: ByteWriter,
    /// Offset in `terms` of each block, and offset in `postings` of its first term.
    blocks: Vec<(u32, u32)>,
    count: usize,
    last: String,
}

/// The three parts of a written dictionary.
#[derive(Debug)]
pub(crate) struct DictionaryParts {
    pub(crate) blocks: Vec<u8>,
    pub(crate) terms: Vec<u8>,
    pub(crate) postings: Vec<u8>,
}

impl DictionaryWriter {
    pub(crate) fn push(&mut self, term: &str, postings: Postings<'_>) {
        let shared = if self.count.is_multiple_of(BLOCK_TERMS) {
            self.blocks.push((self.terms.len() as u32, self.postings.len() as u32));
            0
        } else {
            shared_bytes(&self.last, term)
        };
        self.terms.number(shared as u64);
        self.terms.text(&term[shared..]);
        self.terms.number(u64::from(postings.count));
        self.terms.number(postings.bytes.len() as u64);
        self.postings.raw(postings.bytes);
        self.count += 1;
        term.clone_into(&mut self.last);
    }

    pub(crate) fn finish(self) -> DictionaryParts {
        let number = |(terms, postings): &(u32, u32)| [terms.to_le_bytes(), postings.to_le_bytes()].concat();
        DictionaryParts {
            blocks: self.blocks.iter().flat_map(number).collect(),
            terms: self.terms.into_bytes(),
            postings: self.postings.into_bytes(),
        }
    }
}

/// Bytes that two terms share at their beginning, at a character border of both.
fn shared_bytes(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    other.floor_char_boundary(same)
}

/// A dictionary to be searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dictionary<'a> {
    pub(crate) blocks: &'a [u8],
    pub(crate) terms: &'a [u8],
    pub(crate) postings: &'a [u8],
}

impl<'a> Dictionary<'a> {
    /// The postings of a term.
    pub(crate) fn find(self, term: &str) -> Option<Postings<'a>> {
        let count = self.blocks.len() / 8;
        // The last block whose first term is not greater.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            match self.entries(middle)?.next() {
                Some((first, _)) if first.as_str() <= term => low = middle + 1,
                _ => high = middle,
            }
        }
        let block = low.checked_sub(1)?;
        self.entries(block)?.take(BLOCK_TERMS).find(|(found, _)| found == term).map(|(_, postings)| postings)
    }

    /// All terms in ascending order.
    pub(crate) fn all(self) -> impl Iterator<Item = (String, Postings<'a>)> {
        let entries = if self.blocks.is_empty() { None } else { self.entries(0) };
        entries.into_iter().flatten()
    }

    /// Terms from the beginning of a block to the end of the dictionary.
    fn entries(self, block: usize) -> Option<DictionaryEntries<'a>> {
        let mut places = ByteReader::new(self.blocks.get(block * 8..)?);
        let terms = u32::from_le_bytes(places.array()?) as usize;
        let postings = u32::from_le_bytes(places.array()?) as usize;
        Some(DictionaryEntries {
            terms: ByteReader::new(self.terms.get(terms..)?),
            postings: ByteReader::new(self.postings.get(postings..)?),
            last: String::new(),
        })
    }
}

struct DictionaryEntries<'a> {
    terms: ByteReader<'a>,
    postings: ByteReader<'a>,
    last: String,
}

impl<'a> Iterator for DictionaryEntries<'a> {
    type Item = (String, Postings<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let shared = usize::try_from(self.terms.number()?).ok()?;
        let rest = self.terms.text()?;
        let term = format!("{}{rest}", self.last.get(..shared)?);
        let count = self.terms.number_u32()?;
        let len = usize::try_from(self.terms.number()?).ok()?;
        let bytes = self.postings.raw(len)?;
        term.clone_into(&mut self.last);
        Some((term, Postings { bytes, count }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::postings::PostingsWriter;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_term_is_found_with_its_postings(terms in prop::collection::btree_set("[a-zé]{1,6}", 0..100)) {
            let mut writer = DictionaryWriter::default();
            for (number, term) in (0..).zip(&terms) {
                let mut postings = PostingsWriter::default();
                postings.push(number * 7, number as u8);
                writer.push(term, postings.view());
            }
            let parts = writer.finish();
            let dictionary = Dictionary { blocks: &parts.blocks, terms: &parts.terms, postings: &parts.postings };
            for (number, term) in (0u32..).zip(&terms) {
                let mut found = Vec::new();
                dictionary.find(term).unwrap().for_each(|document, impact| found.push((document, impact)));
                prop_assert_eq!(found, vec![(number * 7, number as u8)]);
                let other = format!("{term}x");
                prop_assert!(terms.contains(&other) || dictionary.find(&other).is_none());
            }
            let all: Vec<String> = dictionary.all().map(|(term, _)| term).collect();
            prop_assert_eq!(all, terms.into_iter().collect::<Vec<_>>());
        }
    }
}
