//! Why a machine did not come up, and what that means for the next attempt.

use sandyard_protocol::ErrorChain;

use super::linking::NoLink;
use super::outcome::JobOutcome;
use crate::store::StoreError;

/// Why a machine did not come up.
pub(super) enum StartFailure {
    /// Another attempt may work.
    Again(String),
    /// No attempt will work.
    Never(JobOutcome),
    /// The host is full.
    Full(String),
    /// The store failed, so it is unknown which state is stored. The machine must not be stopped.
    Store(StoreError),
}

impl From<StoreError> for StartFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NoLink> for StartFailure {
    fn from(no_link: NoLink) -> Self {
        Self::Again(match no_link {
            NoLink::Dead => "the machine died while it started".to_owned(),
            NoLink::Late => "the machine did not answer".to_owned(),
        })
    }
}

impl StartFailure {
    pub(super) fn words(self) -> String {
        match self {
            Self::Again(detail) | Self::Full(detail) => detail,
            Self::Never(outcome) => outcome.reason.unwrap_or_default(),
            Self::Store(error) => ErrorChain(&error).to_string(),
        }
    }
}
