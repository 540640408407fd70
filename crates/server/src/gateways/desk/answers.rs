//! The journal as the model gateway sees it: answers are kept there, together with what was spent.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sandyard_protocol::JournalEntry;

use crate::audit::{AuditActor, AuditEntry, AuditFacts, ModelAnswerFacts, ModelCallFacts, digest};
use crate::error_chain::chain;
use crate::gateways::model::{Asking, KeptAnswer, Ledger, LedgerError, Money, Spent};
use crate::gateways::notes::OwnerNotes;
use crate::job::{Change, Fence, SpentRow};
use crate::store::{Store, StoreError};

/// Entries looked at in one go for an answer behind what was said.
const PAGE: usize = 16;
/// Bytes of them.
const PAGE_BYTES: usize = 1024 * 1024;

/// One job's answers.
pub(crate) struct Answers {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fence: Fence,
    /// The job's number in the store.
    pub(crate) job: i64,
}

impl fmt::Debug for Answers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Answers({})", self.fence.job)
    }
}

#[async_trait]
impl Ledger for Answers {
    async fn kept(&self, number: u64) -> Result<Option<(u64, KeptAnswer)>, LedgerError> {
        let mut next = number;
        loop {
            let page = self.store.journal(self.job, next, PAGE, PAGE_BYTES).await.map_err(failed)?;
            let Some(last) = page.last().map(|row| row.number) else { return Ok(None) };
            for row in page {
                match row.entry {
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
        let mut changes = vec![Change::Spent(row_of(spent))];
        changes.extend(describe(&answer, cost).map(Change::Audit));
        changes.push(Change::Journal(Box::new(answer)));
        let row = self.store.commit(&self.fence, changes).await.map_err(failed)?;
        row.task.map(|task| task.entries).ok_or(LedgerError)
    }

    async fn asking(&self, asking: Asking) -> Result<(), LedgerError> {
        let Asking { number, model, with_key, bytes, sha256 } = asking;
        let provider = model.split('/').next().unwrap_or_default();
        let secret = with_key.then(|| {
            let secret = format!("the key of {provider}");
            let facts = AuditFacts::Secret { secret, purpose: "a model call", entry: number };
            AuditEntry::new(AuditActor::Host, facts)
        });
        let facts = AuditFacts::Model(ModelCallFacts::asked(model, number, bytes, sha256));
        let entries = secret.into_iter().chain([AuditEntry::new(AuditActor::Agent, facts)]).collect();
        let notes = OwnerNotes { store: Arc::clone(&self.store), fence: self.fence.clone() };
        notes.note(entries).await.map_err(|_| LedgerError)
    }
}

/// What the audit holds of an answer: what it took and its hash, not its words.
fn describe(answer: &JournalEntry, cost: Option<Money>) -> Option<AuditEntry> {
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

fn failed(error: StoreError) -> LedgerError {
    tracing::warn!(error = %chain(&error), "an answer could not be kept or found");
    LedgerError
}

/// What was spent, as the store keeps it.
pub(crate) fn row_of(spent: Spent) -> SpentRow {
    SpentRow {
        steps: spent.steps,
        tokens_in: spent.input,
        tokens_out: spent.output,
        money: spent.money.units(),
    }
}
