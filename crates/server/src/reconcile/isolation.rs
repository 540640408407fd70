//! Which driver runs a job: the first usable one, in the order given, that meets the floor. Never less.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandyard_sandbox::driver::{Availability, Driver};

use crate::app::Floor;

/// How long an answer of a driver about itself is believed.
const BELIEVED: Duration = Duration::from_secs(30);

/// The drivers of this yard, in order of preference.
pub(crate) struct Drivers {
    drivers: Vec<Known>,
}

struct Known {
    driver: Arc<dyn Driver>,
    answer: Mutex<Option<(Instant, Availability)>>,
}

/// A driver for a job.
pub(crate) struct Choice {
    pub(crate) driver: Arc<dyn Driver>,
    /// Why not a stronger one.
    pub(crate) reason: Option<String>,
}

/// No driver meets the floor here.
#[derive(Debug, thiserror::Error)]
#[error("no driver here can give isolation `{floor}`: {detail}")]
pub(crate) struct NoDriver {
    pub(crate) floor: String,
    /// What each lacks.
    pub(crate) detail: String,
    /// What a person can do about it.
    pub(crate) fix: Option<String>,
}

impl Drivers {
    pub(crate) fn new(drivers: Vec<Arc<dyn Driver>>) -> Self {
        Self {
            drivers: drivers.into_iter().map(|driver| Known { driver, answer: Mutex::default() }).collect(),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.drivers.iter().map(|known| &known.driver)
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<dyn Driver>> {
        self.all().find(|driver| driver.name() == name).cloned()
    }

    /// Each driver and whether it works here.
    pub(crate) async fn availabilities(&self) -> Vec<(Arc<dyn Driver>, Availability)> {
        let mut answers = Vec::new();
        for known in &self.drivers {
            answers.push((Arc::clone(&known.driver), known.availability().await));
        }
        answers
    }

    /// The driver for a floor.
    pub(crate) async fn choose(&self, floor: &Floor) -> Result<Choice, NoDriver> {
        let mut lacking = Vec::new();
        let mut fix = None;
        for known in &self.drivers {
            let name = known.driver.name();
            if !meets(known.driver.as_ref(), floor) {
                lacking.push(format!("{name} is not what was asked for"));
                continue;
            }
            let availability = known.availability().await;
            if availability.may_start() {
                let reason = (!lacking.is_empty() && *floor == Floor::Any).then(|| lacking.join("; "));
                return Ok(Choice { driver: Arc::clone(&known.driver), reason });
            }
            lacking.push(format!("{name}: {}", availability.detail));
            fix = fix.or(availability.fix);
        }
        let detail = if lacking.is_empty() { "none is configured".to_owned() } else { lacking.join("; ") };
        Err(NoDriver { floor: floor.as_text(), detail, fix })
    }
}

impl Known {
    async fn availability(&self) -> Availability {
        let kept = self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, answer)) = kept
            && at.elapsed() < BELIEVED
        {
            return answer;
        }
        let answer = self.driver.availability().await;
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), answer.clone()));
        answer
    }
}

fn meets(driver: &dyn Driver, floor: &Floor) -> bool {
    match floor {
        Floor::Any => true,
        Floor::Level(level) => driver.isolation().level >= *level,
        Floor::Driver(name) => driver.name() == name,
    }
}
