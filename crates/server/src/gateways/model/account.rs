//! The account of one call, from the reservation to what the job's record is told.

use sandyard_protocol::{ModelFailure, ModelUsage};

use super::budget::Reservation;
use super::{Gateway, Model, Outcome, Told};

/// The account of one call: settled and told once, also when the sandbox goes away in the middle.
#[derive(Debug)]
pub(super) struct Account<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) model: &'a Model,
    pub(super) reservation: Option<Reservation>,
}

impl Account<'_> {
    pub(super) fn with(&mut self, change: impl FnOnce(&mut Reservation)) {
        if let Some(reservation) = &mut self.reservation {
            change(reservation);
        }
    }

    pub(super) async fn answered(mut self, usage: ModelUsage) -> ModelUsage {
        let mut settled = (usage, None);
        self.with(|reservation| settled = reservation.answered(usage));
        let (usage, cost) = settled;
        self.settle(Outcome::Answered { usage, cost }).await;
        usage
    }

    pub(super) async fn failed(mut self, failure: &ModelFailure) {
        self.with(|reservation| reservation.failed(failure.code));
        self.settle(Outcome::Failed(failure.clone())).await;
    }

    async fn settle(mut self, outcome: Outcome) {
        drop(self.reservation.take());
        let told = self.told(outcome);
        // Nobody listens once the job is over.
        let _ = self.gateway.told.send(told).await;
    }

    fn told(&self, outcome: Outcome) -> Told {
        Told { model: self.model.name().to_owned(), outcome, spent: self.gateway.budget.spent() }
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            drop(reservation);
            // A record so full that this is lost hears the sum with the next call.
            let _ = self.gateway.told.try_send(self.told(Outcome::CalledOff));
        }
    }
}
