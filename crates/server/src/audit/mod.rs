//! The audit of a job: what was done to it and by it, in records of which each names the hash of the one before.
//!
//! Owns the form: the encoding that is hashed (`canonical`), records and their chain (`record`), the key that signs the head
//! (`key`), and what checks all of it without a server (`verify`, `verify_zip`). It does no I/O but for the key's file and
//! the archive that is checked; the store appends records in the commit of what they tell, and knows when many are
//! folded into one.

mod canonical;
mod key;
mod record;
mod verify;
mod verify_zip;

pub use key::{BadPublicKey, PublicKey, SigningKey};
pub use record::{Actor, Digest, Head};
pub use verify::{Fault, Verdict, VerifyError, verify_lines};
pub use verify_zip::{ZipFault, ZipVerdict, ZipVerifyError, verify_zip};

pub(crate) use canonical::encode;
pub(crate) use record::{Chain, Entry, Kind, Line, cut, digest};
pub(crate) use verify_zip::manifest_line;
