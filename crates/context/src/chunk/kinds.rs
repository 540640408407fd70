//! What chunks are, and how large.

/// Chunks are filled up to about this size: some 250 tokens, enough for a function or a few paragraphs.
pub(crate) const TARGET_BYTES: usize = 1000;
/// No chunk is larger. A longer function or paragraph is cut at line ends, a longer line anywhere.
pub(crate) const MAX_BYTES: usize = 2400;

/// What a chunk is. The numbers are stored in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkKind {
    /// A function, method, class or type with its name.
    Definition,
    /// Other lines of a program.
    Code,
    /// Paragraphs under a heading.
    Prose,
    /// Lines of a log or of a command's output.
    Log,
    /// Structured data: JSON and the like.
    Data,
    /// A cell of a notebook.
    Cell,
}

impl ChunkKind {
    const ALL: [Self; 6] = [Self::Definition, Self::Code, Self::Prose, Self::Log, Self::Data, Self::Cell];

    pub(crate) fn to_byte(self) -> u8 {
        Self::ALL.iter().position(|&kind| kind == self).map_or(0, |place| place as u8)
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}
