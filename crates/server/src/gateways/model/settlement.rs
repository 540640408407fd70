//! The settlement of one call: from the reservation in the budget to the report about its end.

use sandyard_protocol::ModelUsage;

use super::budget::Reservation;
use super::provider::AskFailure;
use super::{CallReport, Model, ModelCallEnd, ModelGateway, ModelReport, Money};

/// Charges and reports one call exactly once. Dropping it early, because the sandbox went away, charges the part that is known.
#[derive(Debug)]
pub(super) struct CallSettlement<'a> {
    pub(super) gateway: &'a ModelGateway,
    pub(super) model: &'a Model,
    /// None once the call is charged.
    pub(super) reservation: Option<Reservation>,
    /// The journal number that the answer is expected to have.
    pub(super) number: u64,
}

impl CallSettlement<'_> {
    pub(super) fn with(&mut self, change: impl FnOnce(&mut Reservation)) {
        if let Some(reservation) = &mut self.reservation {
            change(reservation);
        }
    }

    /// Charges for the answer. The report follows when the answer is stored.
    pub(super) fn answered(&mut self, usage: ModelUsage) -> (ModelUsage, Option<Money>) {
        let mut settled = (usage, None);
        self.with(|reservation| settled = reservation.answered(usage));
        drop(self.reservation.take());
        settled
    }

    /// Charges for a failed call and reports it.
    pub(super) async fn failed(mut self, asked: AskFailure) {
        let AskFailure { failure, address } = asked;
        self.with(|reservation| reservation.failed(failure.code));
        drop(self.reservation.take());
        self.report(ModelCallEnd::Failed { failure, address }).await;
    }

    /// Reports how the call ended.
    pub(super) async fn report(&self, end: ModelCallEnd) {
        // The receiver is gone once the job is over.
        let _ = self.gateway.reports.send(self.report_of(end)).await;
    }

    fn report_of(&self, end: ModelCallEnd) -> ModelReport {
        ModelReport::Call(CallReport {
            number: self.number,
            model: self.model.name().to_owned(),
            end,
            spent: self.gateway.budget.spent(),
        })
    }
}

impl Drop for CallSettlement<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            // Charged first, so that the report has the new total.
            drop(reservation);
            // If the channel is full, the next report has the total.
            let _ = self.gateway.reports.try_send(self.report_of(ModelCallEnd::CalledOff));
        }
    }
}
