//! The journal as the model gateway's ledger: stores an answer and the spending in one commit.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sandyard_memory::SourceOrigin;
use sandyard_protocol::{ContextPart, ErrorChain, JournalEntry, limits};

use crate::audit::{AuditActor, AuditEntry, AuditFacts, ModelAnswerFacts, ModelCallFacts, digest};
use crate::gateways::model::{KeptAnswer, Ledger, LedgerError, Money, OutgoingCall, Spent};
use crate::gateways::owner_audit::OwnerAudit;
use crate::job::{Change, JobFence, SpentRow};
use crate::recall::{KeepTextError, KeptTexts, PACKING_PATH, PlainText, TextOwner};
use crate::store::{Store, StoreError};

/// Entries read at once in the search for an answer behind messages of people.
const PAGE_ENTRIES: usize = 16;
/// Bytes of the log of one packing; a longer one is kept without the texts of its parts.
const MAX_PACKING_BYTES: usize = 1024 * 1024;
/// Bytes read at once.
const PAGE_BYTES: usize = 1024 * 1024;

/// The ledger of one job.
pub(crate) struct JournalLedger {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fence: JobFence,
    pub(crate) texts: KeptTexts,
    /// The job's number in the store.
    pub(crate) job: i64,
}

impl fmt::Debug for JournalLedger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "JournalLedger({})", self.fence.job)
    }
}

#[async_trait]
impl Ledger for JournalLedger {
    async fn kept(&self, number: u64) -> Result<Option<(u64, KeptAnswer)>, LedgerError> {
        let mut next = number;
        loop {
            let page = self.store.journal(self.job, next, PAGE_ENTRIES, PAGE_BYTES).await.map_err(failed)?;
            let Some(last) = page.last().map(|row| row.number) else { return Ok(None) };
            for row in page {
                match row.entry {
                    // People may have spoken after the agent chose its number, so the answer can be behind their words.
                    JournalEntry::Said { .. } => {}
                    JournalEntry::Answer { text, calls, stop, usage, .. } => {
                        return Ok(Some((row.number, KeptAnswer { text, calls, stop, usage })));
                    }
                    _ => return Ok(None),
                }
            }
            next = last + 1;
        }
    }

    async fn keep(
        &self,
        answer: JournalEntry,
        spent: Spent,
        cost: Option<Money>,
    ) -> Result<u64, LedgerError> {
        // One commit: a crash can't leave an answer that is not charged, or a charge without its answer.
        let mut changes = vec![Change::Spent(row_of(spent))];
        changes.extend(describe(&answer, cost).map(Change::Audit));
        changes.push(Change::Journal(Box::new(answer)));
        let row = self.store.commit(&self.fence, changes).await.map_err(failed)?;
        row.task.map(|task| task.entries).ok_or(LedgerError)
    }

    async fn keep_packing(&self, packing: &[ContextPart]) -> Result<(), LedgerError> {
        let mut log = serde_json::to_vec(packing).map_err(|_| LedgerError)?;
        if log.len() > MAX_PACKING_BYTES {
            let bare = |part: &ContextPart| ContextPart { replaced_by: None, ..part.clone() };
            let bare: Vec<ContextPart> = packing.iter().take(limits::CONTEXT_PARTS).map(bare).collect();
            log = serde_json::to_vec(&bare).map_err(|_| LedgerError)?;
        }
        let path = PACKING_PATH.to_owned();
        let text = PlainText { origin: SourceOrigin::Note, path, bytes: log.into() };
        let owner = TextOwner { id: self.fence.job.clone(), number: self.job, epoch: Some(self.fence.epoch) };
        match self.texts.keep(&owner, vec![text]).await {
            Ok(()) => Ok(()),
            Err(KeepTextError::Store(error)) => Err(failed(error)),
            Err(error) => {
                // An answer that was paid for must not be lost because its log could not be kept.
                tracing::warn!(job = %self.fence.job, error = %ErrorChain(&error), "a packing is not logged");
                Ok(())
            }
        }
    }

    async fn record_outgoing(&self, call: OutgoingCall) -> Result<(), LedgerError> {
        let OutgoingCall { number, model, with_key, bytes, sha256 } = call;
        let provider = model.split('/').next().unwrap_or_default();
        // The use of a key is a record of its own, so that an audit can be searched for it.
        let secret = with_key.then(|| {
            let secret = format!("the key of {provider}");
            let facts = AuditFacts::Secret { secret, purpose: "a model call", entry: number };
            AuditEntry::new(AuditActor::Host, facts)
        });
        let facts = AuditFacts::Model(ModelCallFacts::asked(model, number, bytes, sha256));
        let entries = secret.into_iter().chain([AuditEntry::new(AuditActor::Agent, facts)]).collect();
        let audit = OwnerAudit { store: Arc::clone(&self.store), fence: self.fence.clone() };
        audit.record(entries).await.map_err(|_| LedgerError)
    }
}

/// Returns the audit record of an answer: its cost and hash, not its text.
pub(super) fn describe(answer: &JournalEntry, cost: Option<Money>) -> Option<AuditEntry> {
    let JournalEntry::Answer { model, usage, calls, .. } = answer else { return None };
    let facts = ModelAnswerFacts {
        tokens_in: usage.input,
        tokens_cached: usage.cached,
        tokens_out: usage.output,
        picousd: cost.map(Money::units),
        calls: calls.len(),
        sha256: digest(&serde_json::to_vec(answer).unwrap_or_default()),
    };
    let facts = AuditFacts::Model(ModelCallFacts::answered(model.clone(), facts));
    Some(AuditEntry::new(AuditActor::Host, facts))
}

pub(super) fn failed(error: StoreError) -> LedgerError {
    tracing::warn!(error = %ErrorChain(&error), "an answer could not be stored or read");
    LedgerError
}

/// Converts spending to the form of the store.
pub(crate) fn row_of(spent: Spent) -> SpentRow {
    SpentRow {
        steps: spent.steps,
        tokens_in: spent.input,
        tokens_out: spent.output,
        money: spent.money.units(),
    }
}
