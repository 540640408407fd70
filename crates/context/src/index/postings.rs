//! A postings list: in which documents a term occurs, and how much it counts there.
//!
//! Each posting is the distance to the document before as LEB128, then one byte of impact: the term's saturated, length-normalised
//! frequency, so that a query only multiplies and adds.

use crate::codec::{ByteReader, put_number};

/// Collects the postings of one term.
#[derive(Debug, Default, Clone)]
pub(crate) struct PostingsWriter {
    bytes: Vec<u8>,
    /// The number that the next document must have at least.
    next: u32,
    count: u32,
}

impl PostingsWriter {
    /// Adds a posting. Documents must come in ascending order.
    pub(crate) fn push(&mut self, document: u32, impact: u8) {
        debug_assert!(document >= self.next, "postings in ascending order");
        put_number(&mut self.bytes, u64::from(document.saturating_sub(self.next)));
        self.bytes.push(impact);
        self.next = document + 1;
        self.count += 1;
    }

    pub(crate) fn view(&self) -> Postings<'_> {
        Postings { bytes: &self.bytes, count: self.count }
    }
}

/// The postings of one term, to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Postings<'a> {
    pub(crate) bytes: &'a [u8],
    /// Documents that have the term.
    pub(crate) count: u32,
}

impl Postings<'_> {
    /// Calls `visit` with each document and impact.
    pub(crate) fn for_each(self, mut visit: impl FnMut(u32, u8)) {
        let bytes = self.bytes;
        let mut at = 0;
        let mut next = 0u32;
        while at + 1 < bytes.len() {
            // Nearly all distances fit in one byte; the loop for the others stays out of the way.
            let mut gap = u32::from(bytes[at]);
            at += 1;
            if gap >= 0x80 {
                let mut reader = ByteReader::new(&bytes[at - 1..]);
                let Some(long) = reader.number_u32() else { return };
                gap = long;
                while at < bytes.len() && bytes[at - 1] >= 0x80 {
                    at += 1;
                }
            }
            let Some(&impact) = bytes.get(at) else { return };
            at += 1;
            let document = next.saturating_add(gap);
            visit(document, impact);
            next = document.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn what_is_pushed_is_visited(postings in prop::collection::btree_map(0u32..3_000_000, any::<u8>(), 0..200)) {
            let mut writer = PostingsWriter::default();
            for (&document, &impact) in &postings {
                writer.push(document, impact);
            }
            let mut found = BTreeMap::new();
            writer.view().for_each(|document, impact| { found.insert(document, impact); });
            prop_assert_eq!(writer.view().count as usize, postings.len());
            prop_assert_eq!(found, postings);
        }

        #[test]
        fn any_bytes_are_visited_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            Postings { bytes: &bytes, count: 0 }.for_each(|_, _| {});
        }
    }
}
