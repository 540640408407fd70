//! Which driver gets a job: the first in order that meets every floor, works, and is offered to the job. No I/O.

use sandyard_sandbox::driver::{Availability, IsolationLevel, Offer};

use crate::job::Floor;

/// A driver as far as it is known.
pub(super) struct Candidate<'a> {
    pub(super) name: &'static str,
    pub(super) level: IsolationLevel,
    /// What it said of itself; `None` until it was asked.
    pub(super) answer: Option<&'a Availability>,
}

/// What a job must get, by its own word and the operator's.
pub(super) struct Rules<'a> {
    /// What the job asked for.
    pub(super) job: &'a Floor,
    /// What the server asks for on behalf of every job.
    pub(super) server: &'a [Floor],
}

/// What follows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// This one.
    Take {
        index: usize,
        /// Why not one that is stronger or comes earlier.
        reason: Option<String>,
    },
    /// It depends on this one, which was never asked.
    Ask { index: usize },
    /// None.
    Nothing(NoDriver),
}

/// No driver meets the floor here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no driver here can give isolation `{floor}`: {detail}")]
pub(crate) struct NoDriver {
    pub(crate) floor: String,
    /// What each lacks.
    pub(crate) detail: String,
    /// What a person can do about it.
    pub(crate) fix: Option<String>,
}

impl Rules<'_> {
    /// Decides for drivers in order of preference.
    pub(super) fn decide(&self, candidates: &[Candidate<'_>]) -> Decision {
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
                passed_over.push(format!("{}: {}", candidate.name, answer.detail));
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

    /// Whether a driver could be given to a job if it works.
    pub(super) fn admits(&self, candidate: &Candidate<'_>) -> bool {
        self.shortfall(candidate).is_none()
    }

    /// Why a driver is out of the question, however well it works.
    fn shortfall(&self, candidate: &Candidate<'_>) -> Option<String> {
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

    fn names(&self, candidate: &Candidate<'_>) -> bool {
        self.floors().any(|floor| matches!(floor, Floor::Driver(name) if name == candidate.name))
    }

    fn asks_for_more_than_a_container(&self) -> bool {
        self.floors().any(|floor| matches!(floor, Floor::Level(level) if *level > IsolationLevel::Container))
    }

    fn floors(&self) -> impl Iterator<Item = &Floor> {
        std::iter::once(self.job).chain(self.server)
    }

    /// Why not another one: what was passed over, and what is stronger but comes later.
    fn reason(
        &self,
        candidates: &[Candidate<'_>],
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
