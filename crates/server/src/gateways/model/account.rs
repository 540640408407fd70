//! The account of one call, from the reservation to what the job's record is told.

use sandyard_protocol::{ModelFailure, ModelUsage};

use super::Money;
use super::budget::Reservation;
use super::{Called, Gateway, Model, Outcome, Told};

/// The account of one call: settled and told once, also when the sandbox goes away in the middle.
#[derive(Debug)]
pub(super) struct Account<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) model: &'a Model,
    pub(super) reservation: Option<Reservation>,
    /// The journal number that the answer is expected to have.
    pub(super) number: u64,
}

impl Account<'_> {
    pub(super) fn with(&mut self, change: impl FnOnce(&mut Reservation)) {
        if let Some(reservation) = &mut self.reservation {
            change(reservation);
        }
    }

    /// Charges for the answer; what it took is told when it is kept.
    pub(super) fn answered(&mut self, usage: ModelUsage) -> (ModelUsage, Option<Money>) {
        let mut settled = (usage, None);
        self.with(|reservation| settled = reservation.answered(usage));
        drop(self.reservation.take());
        settled
    }

    pub(super) async fn failed(mut self, failure: &ModelFailure) {
        self.with(|reservation| reservation.failed(failure.code));
        drop(self.reservation.take());
        self.tell(Outcome::Failed(failure.clone())).await;
    }

    /// Tells the job's record how the call ended.
    pub(super) async fn tell(&self, outcome: Outcome) {
        // Nobody listens once the job is over.
        let _ = self.gateway.told.send(self.told(outcome)).await;
    }

    fn told(&self, outcome: Outcome) -> Told {
        Told::Called(Called {
            number: self.number,
            model: self.model.name().to_owned(),
            outcome,
            spent: self.gateway.budget.spent(),
        })
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
