//! The ledger of calls that the host makes for a job beside its conversation: they are charged and audited like the agent's, and
//! their answers are no part of the journal.

use async_trait::async_trait;
use sandyard_protocol::{ContextPart, JournalEntry};

use super::ledger::{JournalLedger, describe, failed, row_of};
use crate::gateways::model::{KeptAnswer, Ledger, LedgerError, Money, OutgoingCall, Spent};
use crate::job::Change;

/// Charges a job without writing to its journal.
#[derive(Debug)]
pub(crate) struct ChargeLedger(pub(crate) JournalLedger);

#[async_trait]
impl Ledger for ChargeLedger {
    async fn kept(&self, _number: u64) -> Result<Option<(u64, KeptAnswer)>, LedgerError> {
        Ok(None)
    }

    async fn keep(
        &self,
        answer: JournalEntry,
        spent: Spent,
        cost: Option<Money>,
    ) -> Result<u64, LedgerError> {
        let mut changes = vec![Change::Spent(row_of(spent))];
        changes.extend(describe(&answer, cost).map(Change::Audit));
        self.0.store.commit(&self.0.fence, changes).await.map_err(failed)?;
        Ok(0)
    }

    async fn keep_packing(&self, _packing: &[ContextPart]) -> Result<(), LedgerError> {
        // What the host itself asks is no step of the conversation.
        Ok(())
    }

    async fn record_outgoing(&self, call: OutgoingCall) -> Result<(), LedgerError> {
        self.0.record_outgoing(call).await
    }
}
