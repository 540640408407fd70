//! One deadline for everything that an explanation takes from facts alone.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// Time for the list of commands, the start of the workspace, the reader and all pictures together.
const FACTS_TIME: Duration = Duration::from_secs(5);

/// What is left of the time for the facts. Each step takes what those before it left, so a job never waits for several
/// timeouts in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct FactsBudget {
    ends: Instant,
}

impl FactsBudget {
    /// The whole time, from now on.
    pub(super) fn begin() -> Self {
        Self { ends: Instant::now() + FACTS_TIME }
    }

    /// The time that is left. `None` if there is none.
    pub(super) fn left(self) -> Option<Duration> {
        Some(self.ends.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Half of the time that is left, for a step that may fail and leaves the rest to another.
    pub(super) fn half(self) -> Self {
        let now = Instant::now();
        Self { ends: now + self.ends.saturating_duration_since(now) / 2 }
    }

    /// Waits for a step until the time is over. `None` if the step did not end before.
    pub(super) async fn within<T>(self, step: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.ends, step).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn steps_share_one_deadline() {
        let begun = Instant::now();
        let budget = FactsBudget::begin();
        assert!(budget.within(std::future::pending::<()>()).await.is_none());
        assert_eq!(budget.left(), None);
        assert!(budget.within(std::future::pending::<()>()).await.is_none());
        assert_eq!(begun.elapsed(), FACTS_TIME, "the second step waits no more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_half_leaves_the_other_half() {
        let budget = FactsBudget::begin();
        assert!(budget.half().within(std::future::pending::<()>()).await.is_none());
        assert_eq!(budget.left(), Some(FACTS_TIME / 2));
        assert_eq!(budget.within(async { 7 }).await, Some(7));
    }
}
