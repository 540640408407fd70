//! Passages with their citations. The reader names places; the host reads the text there and compares it with the digest, so a
//! citation is right or missing, whatever the reader says.

use sandyard_memory::messages::{FoundPassage, text_number};
use sandyard_memory::{ContentDigest, PassagePlace, SourceOrigin};

use super::sources::StoredSourceCache;
use crate::store::StoreError;

/// Where a passage stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledPlace {
    /// The journal entry; the last one before it for a text that came with none, and 0 without a journal.
    pub entry: u64,
    /// Which text of the entry.
    pub part: u32,
    /// Number of a kept text; `None` for a text of the entry itself.
    pub text: Option<u64>,
    /// Where the text came from.
    pub origin: SourceOrigin,
    /// Path of a file, or the name of a tool or language.
    pub path: String,
    /// When it was stored, in milliseconds since 1970.
    pub at_ms: u64,
    /// First byte in the text.
    pub start: u64,
    /// First and last line in the text, counting from 1.
    pub lines: (u32, u32),
}

/// A passage that was found and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct RecalledPassage {
    /// The passage, byte for byte as it is stored.
    pub bytes: Vec<u8>,
    /// Name of the definition, or headings above the passage.
    pub name: String,
    /// How well it fits, for comparison with other passages of the same answer.
    pub score: f32,
    /// Digest of the bytes.
    pub digest: ContentDigest,
    /// The newest place that has it.
    pub place: RecalledPlace,
    /// In how many places it was seen.
    pub seen: usize,
    /// Where it was seen first, if that is another place.
    pub first: Option<RecalledPlace>,
}

/// The answer to a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecalledPassages {
    /// Best first.
    pub passages: Vec<RecalledPassage>,
    /// Passages that were left out because their text is lost or changed.
    pub unverified: usize,
    /// Parts of the index that were damaged, and made again for this answer.
    pub rebuilt: usize,
}

/// Reads and checks passages until there are enough.
pub(super) async fn cite(
    sources: &mut StoredSourceCache<'_>,
    found: Vec<FoundPassage>,
    count: usize,
) -> Result<RecalledPassages, StoreError> {
    let mut answer = RecalledPassages::default();
    for passage in found {
        if answer.passages.len() >= count {
            break;
        }
        let FoundPassage { name, digest, bytes, score, seen, places } = passage;
        let mut cited = None;
        for place in &places {
            if let Some(checked) = check(sources, place, digest, bytes).await? {
                cited = Some(checked);
                break;
            }
        }
        let Some((place, text)) = cited else {
            answer.unverified += 1;
            continue;
        };
        let first = match places.last() {
            Some(first) => check(sources, first, digest, bytes).await?.map(|(first, _)| first),
            None => None,
        };
        let first = first.filter(|first| *first != place);
        answer.passages.push(RecalledPassage { bytes: text, name, score, digest, place, seen, first });
    }
    Ok(answer)
}

/// The bytes at a place, if they are those of the digest. Facts about the source are those of the store, not of the reader.
async fn check(
    sources: &mut StoredSourceCache<'_>,
    place: &PassagePlace,
    digest: ContentDigest,
    bytes: u32,
) -> Result<Option<(RecalledPlace, Vec<u8>)>, StoreError> {
    let id = place.source.id;
    let Some(source) = sources.source(id).await? else { return Ok(None) };
    let start = usize::try_from(place.start).unwrap_or(usize::MAX);
    let range = start..start.saturating_add(bytes as usize);
    let Some(text) = source.bytes.get(range.clone()).filter(|text| ContentDigest::of(text) == digest) else {
        return Ok(None);
    };
    let newlines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count() as u32;
    let first_line = 1 + newlines(&source.bytes[..start]);
    let last_line = first_line + newlines(text.strip_suffix(b"\n").unwrap_or(text));
    let place = RecalledPlace {
        entry: id.number,
        part: id.part,
        text: text_number(id),
        origin: source.origin,
        path: source.path.clone(),
        at_ms: source.at_ms,
        start: place.start,
        lines: (first_line, last_line),
    };
    Ok(Some((place, text.to_vec())))
}
