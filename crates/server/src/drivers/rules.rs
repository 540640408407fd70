//! Chooses the driver of a job: the first in order that meets every floor, works, and is offered to the job. No I/O.

use sandyard_sandbox::driver::{Availability, IsolationLevel, Offer};

use crate::job::Floor;

/// A driver as a decision sees it.
pub(super) struct DriverCandidate<'a> {
    pub(super) name: &'static str,
    pub(super) level: IsolationLevel,
    /// The driver's answer; none until it was probed.
    pub(super) answer: Option<&'a Availability>,
}

/// The floors of a job: its own and the operator's.
pub(super) struct Rules<'a> {
    /// The job's own floor.
    pub(super) job: &'a Floor,
    /// The operator's floors for every job.
    pub(super) server: &'a [Floor],
}

/// The decision about a job's driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The job gets this driver.
    Take {
        index: usize,
        /// Why the job gets no driver that is stronger or comes earlier.
        reason: Option<String>,
    },
    /// The decision depends on this driver, which has no answer.
    Ask { index: usize },
    /// No driver is usable.
    Nothing(NoDriver),
}

/// No driver on this host meets the floor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no driver here can give isolation `{floor}`: {detail}")]
pub(crate) struct NoDriver {
    pub(crate) floor: String,
    /// The shortfall of each driver.
    pub(crate) detail: String,
    /// Advice for the operator.
    pub(crate) fix: Option<String>,
}

impl Rules<'_> {
    /// Decides among drivers in order of preference.
    pub(super) fn decide(&self, candidates: &[DriverCandidate<'_>]) -> Decision {
        let mut passed_over = Vec::new();
        let mut fix = None;
        let mut in_need = None;
        for (index, candidate) in candidates.iter().enumerate() {
            if let Some(shortfall) = self.shortfall(candidate) {
                passed_over.push(shortfall);
                continue;
            }
            let Some(answer) = candidate.answer else { return Decision::Ask { index } };
            if !answer.may_start() {
                passed_over.push(format!("{}: {}", candidate.name, answer.summary()));
                fix = fix.or_else(|| answer.fix.clone());
            } else if answer.offer == Offer::Always || self.names(candidate) {
                return Decision::Take { index, reason: self.reason(candidates, index, passed_over) };
            } else if answer.offer == Offer::WhenNeeded && self.asks_for_more_than_a_container() {
                in_need = in_need.or(Some((index, passed_over.clone())));
            } else {
                passed_over.push(format!("{}: {}", candidate.name, reluctance(answer.offer)));
                fix = fix.or_else(|| Some(format!("name it to use it: isolation `{}`", candidate.name)));
            }
        }
        match in_need {
            Some((index, earlier)) => {
                Decision::Take { index, reason: self.reason(candidates, index, earlier) }
            }
            None => Decision::Nothing(self.nothing(passed_over, fix)),
        }
    }

    /// True if the job may get this driver, should it work.
    pub(super) fn admits(&self, candidate: &DriverCandidate<'_>) -> bool {
        self.shortfall(candidate).is_none()
    }

    /// Returns why the job may not get a driver, even if it works.
    fn shortfall(&self, candidate: &DriverCandidate<'_>) -> Option<String> {
        let name = candidate.name;
        let by_server = self.server.iter().map(|floor| (floor, "by this server"));
        std::iter::once((self.job, "by the job")).chain(by_server).find_map(|(floor, by_whom)| match floor {
            Floor::Level(level) if candidate.level < *level => {
                let (gives, asked) = (candidate.level.as_str(), level.as_str());
                Some(format!("{name} gives `{gives}`, and `{asked}` is asked for {by_whom}"))
            }
            Floor::Driver(named) if named != name => {
                Some(format!("{name}: only `{named}` is asked for {by_whom}"))
            }
            Floor::Any | Floor::Level(_) | Floor::Driver(_) => None,
        })
    }

    fn names(&self, candidate: &DriverCandidate<'_>) -> bool {
        self.floors().any(|floor| matches!(floor, Floor::Driver(name) if name == candidate.name))
    }

    fn asks_for_more_than_a_container(&self) -> bool {
        self.floors().any(|floor| matches!(floor, Floor::Level(level) if *level > IsolationLevel::Container))
    }

    fn floors(&self) -> impl Iterator<Item = &Floor> {
        std::iter::once(self.job).chain(self.server)
    }

    /// Returns why the job gets no other driver: those passed over, and stronger ones that come later.
    fn reason(
        &self,
        candidates: &[DriverCandidate<'_>],
        taken: usize,
        mut passed_over: Vec<String>,
    ) -> Option<String> {
        let (level, name) = (candidates[taken].level, candidates[taken].name);
        if let Floor::Driver(named) = self.job
            && named == name
        {
            return Some("asked for by name".to_owned());
        }
        let later = candidates.iter().skip(taken + 1).filter(|later| later.level > level);
        let later = later.filter(|later| later.answer.is_none_or(Availability::may_start));
        passed_over.extend(
            later.map(|later| format!("{}: only for a floor of `{}`", later.name, later.level.as_str())),
        );
        (!passed_over.is_empty()).then(|| passed_over.join("; "))
    }

    fn nothing(&self, passed_over: Vec<String>, fix: Option<String>) -> NoDriver {
        let detail =
            if passed_over.is_empty() { "none is configured".to_owned() } else { passed_over.join("; ") };
        NoDriver { floor: self.job.as_text(), detail, fix }
    }
}

fn reluctance(offer: Offer) -> &'static str {
    match offer {
        Offer::Always => "usable",
        Offer::WhenNeeded => "only used when named, or when more than a container is asked for",
        Offer::WhenNamed => "only used when named",
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
