//! Kept texts of the store in memory.

use std::collections::BTreeMap;

use sandyard_memory::ContentDigest;

use super::rules::TextsWrite;
use crate::job::{NewTextBody, StoredText, TextRow};

/// The texts of all jobs, by job and number.
#[derive(Debug, Default)]
pub(super) struct MemoryTexts(BTreeMap<(i64, u64), (TextRow, Option<NewTextBody>)>);

impl MemoryTexts {
    pub(super) fn add(&mut self, write: &TextsWrite) {
        let job = write.row.number;
        self.0.extend(write.texts.iter().map(|text| ((job, text.0.number), text.clone())));
    }

    pub(super) fn remove(&mut self, removed: i64) {
        self.0.retain(|(job, _), _| *job != removed);
    }

    /// Texts of a job from a number on.
    pub(super) fn from(&self, job: i64, first: u64) -> impl DoubleEndedIterator<Item = &TextRow> {
        self.0.range((job, first)..=(job, u64::MAX)).map(|(_, (text, _))| text)
    }

    pub(super) fn stored(&self, job: i64, digest: ContentDigest) -> Option<StoredText> {
        let mut texts = self.0.range((job, 0)..=(job, u64::MAX)).map(|(_, text)| text);
        texts.find_map(|(text, body)| match body {
            Some(NewTextBody::Inline(packed)) if text.digest == digest => {
                Some(StoredText::Inline(packed.clone()))
            }
            Some(NewTextBody::Blob(_)) if text.digest == digest => Some(StoredText::Blob),
            _ => None,
        })
    }
}
