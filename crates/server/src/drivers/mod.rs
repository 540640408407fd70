//! The drivers of this yard: which ones work, which one gets a job, and the image formats that they need.
//!
//! `rules` decides without I/O, `probe` asks a driver and keeps its answer, `image_formats` makes images. A driver is probed only
//! when a decision depends on it, and no job waits for a driver that its decision does not depend on.

mod image_formats;
mod images;
mod panics;
mod probe;
mod rules;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_sandbox::driver::{Availability, Driver, ImageDigest};
use tokio::sync::{Notify, watch};

pub(crate) use self::image_formats::FormatState;
use self::image_formats::ImageFormats;
pub use self::images::{ImageFlavour, ImageState, Images};
use self::probe::DriverProbe;
pub(crate) use self::rules::NoDriver;
use self::rules::{Decision, DriverCandidate, Rules};
use crate::job::Floor;

/// The drivers, in order of preference.
pub(crate) struct Drivers {
    drivers: Vec<Arc<DriverProbe>>,
    /// Floors of every job.
    floors: Vec<Floor>,
    formats: ImageFormats,
}

/// The driver of a job.
#[derive(Clone)]
pub(crate) struct DriverChoice {
    pub(crate) driver: Arc<dyn Driver>,
    /// Why the job gets no stronger driver.
    pub(crate) reason: Option<String>,
}

/// A decision about a job's driver, as far as it can be made without waiting.
pub(crate) enum Outlook {
    /// The job gets this driver.
    Chosen(DriverChoice),
    /// The decision depends on this driver, which is being probed.
    Trying(&'static str),
    /// No driver is usable. The duration is the time since the last usable driver was found missing.
    Nothing(NoDriver, Duration),
}

/// A driver as `GET /drivers` lists it.
pub(crate) struct DriverReport {
    pub(crate) driver: Arc<dyn Driver>,
    /// The driver's answer; none until it was probed.
    pub(crate) answer: Option<Availability>,
    /// Progress of the image format that is being made for it.
    pub(crate) making: Option<String>,
}

impl Drivers {
    /// `answered` is notified of every answer.
    pub(crate) fn new(drivers: Vec<Arc<dyn Driver>>, floors: Vec<Floor>, answered: &Arc<Notify>) -> Self {
        let probes = drivers.into_iter().map(|driver| DriverProbe::new(driver, Arc::clone(answered)));
        Self { drivers: probes.collect(), floors, formats: ImageFormats::default() }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.drivers.iter().map(|probe| &probe.driver)
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<dyn Driver>> {
        self.all().find(|driver| driver.name() == name).cloned()
    }

    /// Returns the state of an image's format for a driver. Begins to make it if needed.
    pub(crate) fn image_format(
        &self,
        name: &str,
        image: &ImageDigest,
    ) -> Option<watch::Receiver<FormatState>> {
        self.named(name).map(|driver| self.formats.of(&driver, image))
    }

    /// Puts a driver in doubt, because a start failed: it is probed before it is chosen again.
    pub(crate) fn doubt(&self, name: &str) {
        self.formats.forget(name);
        if let Some(probe) = self.drivers.iter().find(|probe| probe.driver.name() == name) {
            probe.doubt();
            probe.start();
        }
    }

    /// Returns a report of each driver, after waiting for at most `within`. Drivers without an answer are probed, and those that were missing
    /// a while ago, all at once.
    pub(crate) async fn reports(&self, within: Duration) -> Vec<DriverReport> {
        let asking = self.drivers.iter().map(|probe| async {
            if probe.state().is_worth_asking(Instant::now()) {
                probe.probe_now().await;
            } else {
                probe.refresh();
            }
        });
        // A driver without an answer by then is reported as being probed.
        let _ = tokio::time::timeout(within, futures_util::future::join_all(asking)).await;
        let report = |probe: &Arc<DriverProbe>| DriverReport {
            driver: Arc::clone(&probe.driver),
            answer: probe.state().answer,
            making: self.formats.making(probe.driver.name()),
        };
        self.drivers.iter().map(report).collect()
    }

    /// Chooses the driver of a job. Probes the drivers that the decision depends on, and once more those that are missing if
    /// there is no other.
    pub(crate) async fn choose(&self, floor: &Floor) -> Result<DriverChoice, NoDriver> {
        let mut tried_again = false;
        loop {
            match self.decide(floor) {
                Decision::Take { index, reason } => return Ok(self.take(index, reason)),
                Decision::Ask { index } => self.drivers[index].probe_now().await,
                Decision::Nothing(no_driver) => {
                    let doubtful = self.worth_another_try(floor);
                    if std::mem::replace(&mut tried_again, true) || doubtful.is_empty() {
                        return Err(no_driver);
                    }
                    futures_util::future::join_all(doubtful.iter().map(|probe| probe.probe_now())).await;
                }
            }
        }
    }

    /// Decides without waiting. Starts the probes that the decision depends on; `answered` is notified when they end.
    pub(crate) fn outlook(&self, floor: &Floor) -> Outlook {
        match self.decide(floor) {
            Decision::Take { index, reason } => Outlook::Chosen(self.take(index, reason)),
            Decision::Ask { index } => {
                self.drivers[index].start();
                Outlook::Trying(self.drivers[index].driver.name())
            }
            Decision::Nothing(no_driver) => {
                self.worth_another_try(floor).iter().for_each(|probe| probe.start());
                let now = Instant::now();
                let missing_for = self.admitted(floor).map(|probe| probe.state().missing_for(now)).min();
                Outlook::Nothing(no_driver, missing_for.unwrap_or(Duration::MAX))
            }
        }
    }

    fn decide(&self, floor: &Floor) -> Decision {
        let answers: Vec<_> = self.drivers.iter().map(|probe| probe.state().answer).collect();
        let drivers = self.drivers.iter().zip(&answers);
        let candidates: Vec<_> = drivers.map(|(probe, answer)| candidate(probe, answer.as_ref())).collect();
        self.rules(floor).decide(&candidates)
    }

    /// Takes a driver. Probes it, and those before it, in the background if their answers are no longer valid.
    fn take(&self, index: usize, reason: Option<String>) -> DriverChoice {
        self.drivers[..=index]
            .iter()
            .filter(|probe| probe.state().answer.is_some())
            .for_each(DriverProbe::refresh);
        DriverChoice { driver: Arc::clone(&self.drivers[index].driver), reason }
    }

    fn admitted<'a>(&'a self, floor: &'a Floor) -> impl Iterator<Item = &'a Arc<DriverProbe>> {
        self.drivers.iter().filter(|probe| self.rules(floor).admits(&candidate(probe, None)))
    }

    fn worth_another_try<'a>(&'a self, floor: &'a Floor) -> Vec<&'a Arc<DriverProbe>> {
        let now = Instant::now();
        self.admitted(floor).filter(|probe| probe.state().is_worth_another_try(now)).collect()
    }

    fn rules<'a>(&'a self, job: &'a Floor) -> Rules<'a> {
        Rules { job, server: &self.floors }
    }
}

fn candidate<'a>(probe: &DriverProbe, answer: Option<&'a Availability>) -> DriverCandidate<'a> {
    DriverCandidate { name: probe.driver.name(), level: probe.driver.isolation().level, answer }
}
