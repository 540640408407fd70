//! The drivers of this yard: which work, which one gets a job, and the forms of images they need.
//!
//! `rules` decides, without I/O; `known` asks drivers and keeps their answers; `forms` has images made. Nobody is asked before
//! a decision depends on it, and nobody waits for a driver that the decision does not depend on.

mod caught;
mod forms;
mod images;
mod known;
mod rules;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_sandbox::driver::{Availability, Driver, ImageDigest};
use tokio::sync::{Notify, watch};

pub(crate) use self::forms::Form;
use self::forms::Forms;
pub use self::images::{Flavour, ImageState, Images};
use self::known::Known;
pub(crate) use self::rules::NoDriver;
use self::rules::{Candidate, Decision, Rules};
use crate::job::Floor;

/// The drivers, in order of preference.
pub(crate) struct Drivers {
    drivers: Vec<Arc<Known>>,
    /// Hold for every job.
    floors: Vec<Floor>,
    forms: Forms,
}

/// A driver for a job.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) driver: Arc<dyn Driver>,
    /// Why not a stronger one.
    pub(crate) reason: Option<String>,
}

/// What can be said about a job's driver without waiting.
pub(crate) enum Outlook {
    /// This one.
    Chosen(Choice),
    /// It depends on this one, which is being tried.
    Trying(&'static str),
    /// None, for at least so long.
    Nothing(NoDriver, Duration),
}

/// A driver as `/drivers` tells it.
pub(crate) struct DriverReport {
    pub(crate) driver: Arc<dyn Driver>,
    /// What it says of itself; `None` until it was tried.
    pub(crate) answer: Option<Availability>,
    /// What is being made for it.
    pub(crate) making: Option<String>,
}

impl Drivers {
    /// Whoever waits for answers is woken through `answered`.
    pub(crate) fn new(drivers: Vec<Arc<dyn Driver>>, floors: Vec<Floor>, answered: &Arc<Notify>) -> Self {
        let known = drivers.into_iter().map(|driver| Known::new(driver, Arc::clone(answered)));
        Self { drivers: known.collect(), floors, forms: Forms::default() }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.drivers.iter().map(|known| &known.driver)
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<dyn Driver>> {
        self.all().find(|driver| driver.name() == name).cloned()
    }

    /// The form in which a driver wants an image; its making begins now if need be.
    pub(crate) fn form(&self, name: &str, image: &ImageDigest) -> Option<watch::Receiver<Form>> {
        self.named(name).map(|driver| self.forms.of(&driver, image))
    }

    /// A start failed in a way that speaks against its driver, so it is tried before it is chosen again.
    pub(crate) fn doubt(&self, name: &str) {
        self.forms.forget(name);
        if let Some(known) = self.drivers.iter().find(|known| known.driver.name() == name) {
            known.doubt();
            known.ask();
        }
    }

    /// Each driver, as far as it is known after at most this long. Drivers that were never tried are, all at once.
    pub(crate) async fn reports(&self, within: Duration) -> Vec<DriverReport> {
        let asking = self.drivers.iter().map(|known| async {
            if known.report().answer.is_none() {
                known.asked().await;
            } else {
                known.ask_if_doubtful();
            }
        });
        // What is not known by then is told as being tried.
        let _ = tokio::time::timeout(within, futures_util::future::join_all(asking)).await;
        let report = |known: &Arc<Known>| DriverReport {
            driver: Arc::clone(&known.driver),
            answer: known.report().answer,
            making: self.forms.in_the_making(known.driver.name()),
        };
        self.drivers.iter().map(report).collect()
    }

    /// The driver for a job. Has drivers tried as far as it depends on them, and those that are missing tried again if
    /// there is no other.
    pub(crate) async fn choose(&self, floor: &Floor) -> Result<Choice, NoDriver> {
        let mut tried_again = false;
        loop {
            match self.decide(floor) {
                Decision::Take { index, reason } => return Ok(self.take(index, reason)),
                Decision::Ask { index } => self.drivers[index].asked().await,
                Decision::Nothing(no_driver) => {
                    let doubtful = self.worth_another_try(floor);
                    if std::mem::replace(&mut tried_again, true) || doubtful.is_empty() {
                        return Err(no_driver);
                    }
                    futures_util::future::join_all(doubtful.iter().map(|known| known.asked())).await;
                }
            }
        }
    }

    /// The same without waiting; what is missing for it is under way, and whoever waits is woken.
    pub(crate) fn outlook(&self, floor: &Floor) -> Outlook {
        match self.decide(floor) {
            Decision::Take { index, reason } => Outlook::Chosen(self.take(index, reason)),
            Decision::Ask { index } => {
                self.drivers[index].ask();
                Outlook::Trying(self.drivers[index].driver.name())
            }
            Decision::Nothing(no_driver) => {
                self.worth_another_try(floor).iter().for_each(|known| known.ask());
                let now = Instant::now();
                let missing_for = self.admitted(floor).map(|known| known.report().missing_for(now)).min();
                Outlook::Nothing(no_driver, missing_for.unwrap_or(Duration::MAX))
            }
        }
    }

    fn decide(&self, floor: &Floor) -> Decision {
        let answers: Vec<_> = self.drivers.iter().map(|known| known.report().answer).collect();
        let drivers = self.drivers.iter().zip(&answers);
        let candidates: Vec<_> = drivers.map(|(known, answer)| candidate(known, answer.as_ref())).collect();
        self.rules(floor).decide(&candidates)
    }

    /// Takes a driver. Those before it, and itself, are asked again now and then, which nobody waits for.
    fn take(&self, index: usize, reason: Option<String>) -> Choice {
        self.drivers[..=index]
            .iter()
            .filter(|known| known.report().answer.is_some())
            .for_each(Known::ask_if_doubtful);
        Choice { driver: Arc::clone(&self.drivers[index].driver), reason }
    }

    fn admitted<'a>(&'a self, floor: &'a Floor) -> impl Iterator<Item = &'a Arc<Known>> {
        self.drivers.iter().filter(|known| self.rules(floor).admits(&candidate(known, None)))
    }

    fn worth_another_try<'a>(&'a self, floor: &'a Floor) -> Vec<&'a Arc<Known>> {
        let now = Instant::now();
        self.admitted(floor).filter(|known| known.report().is_worth_another_try(now)).collect()
    }

    fn rules<'a>(&'a self, job: &'a Floor) -> Rules<'a> {
        Rules { job, server: &self.floors }
    }
}

fn candidate<'a>(known: &Known, answer: Option<&'a Availability>) -> Candidate<'a> {
    Candidate { name: known.driver.name(), level: known.driver.isolation().level, answer }
}
