//! How far a write must have come before it is answered.

/// Durability of a write at the time of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteWeight {
    /// The write is on the disk and survives a power cut.
    Synced,
    /// The database or the kernel has the write: it survives the death of this process.
    Light,
}
