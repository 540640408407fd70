//! Signs the heads of audits. Every store gets one and passes it to the rules.

use std::sync::Arc;

use crate::audit::{SigningKey, YARD_CHAIN};
use crate::job::AuditRow;

/// Signs the head of an audit whenever its chain has grown.
#[derive(Debug, Clone)]
pub(crate) struct AuditSigner {
    key: Arc<SigningKey>,
}

impl AuditSigner {
    /// A signer with the server's own key.
    pub(crate) fn new(key: Arc<SigningKey>) -> Self {
        Self { key }
    }

    /// The yard's own audit before its first record.
    pub(crate) fn empty_yard_audit(&self) -> AuditRow {
        let mut audit = AuditRow::begin(YARD_CHAIN);
        self.sign(YARD_CHAIN, &mut audit);
        audit
    }

    /// Signs the head of the chain with this name as it is now. To be called in the commit that extends the chain.
    pub(crate) fn sign(&self, name: &str, audit: &mut AuditRow) {
        audit.sign(name, &self.key);
    }
}
