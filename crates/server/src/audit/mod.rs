//! The audit of a job: records of acts on it and by it, each carrying the hash of the record before.
//!
//! Owns the format: the facts of each kind (`facts`, `call_facts`, `task_facts`), the encoding that is hashed (`canonical`),
//! records and their chain (`record`), the key that signs the head (`key`), and the verifier, which needs no server
//! (`verify`, `verify_zip`). The yard has a chain of its own for acts that must outlive a job (`yard_facts`). The only files it touches are the key and the archive under verification. The store appends a
//! record in the commit of the change that it describes, and folds floods of records into one.

mod call_facts;
mod canonical;
mod digest;
mod facts;
mod key;
mod kind;
mod record;
mod task_facts;
mod verify;
mod verify_zip;
mod yard_facts;

pub use digest::Sha256Digest;
pub use key::{BadPublicKey, PublicKey, SigningKey};
pub use record::{AuditActor, AuditHead};
pub use verify::{AuditFault, AuditVerdict, VerifyError, verify_lines};
pub use verify_zip::{ZipFault, ZipVerdict, ZipVerifyError, verify_zip};
pub use yard_facts::YARD_CHAIN;

pub(crate) use call_facts::{
    AnswerFacts, BodyFacts, CallEnd, CallFacts, CallOutcome, CallRecord, CallerFacts, ResultFacts,
    WrittenFacts,
};
pub(crate) use canonical::encode;
pub(crate) use digest::digest;
pub(crate) use facts::{
    AuditFacts, EgressFacts, ExportFacts, FileDigest, ReplyFacts, ScheduleFacts, StateFacts, WorkspaceFacts,
    WorkspaceFindings,
};
pub(crate) use kind::AuditKind;
pub(crate) use record::{AuditChain, AuditEntry, AuditLine, cut};
pub(crate) use task_facts::{ModelAnswerFacts, ModelCallFacts, StepEndFacts, StepFacts};
pub(crate) use verify_zip::manifest_line;
pub(crate) use yard_facts::{ChainEndFacts, StartFacts};
