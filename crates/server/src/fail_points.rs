//! Named places at which a test can stop a yard as a crash would: code after the place never runs.
//!
//! Without a hook, which is always outside tests, reaching a place costs one comparison.

use std::fmt;
use std::sync::Arc;

/// Decides whether the yard dies at a place.
type Hook = Arc<dyn Fn(&'static str) -> bool + Send + Sync>;

/// The hook, if there is one.
#[derive(Clone, Default)]
pub struct FailPoints(Option<Hook>);

impl FailPoints {
    /// Asks the hook at every place; once it says `true`, the task that asked never goes on.
    pub fn with(hook: impl Fn(&'static str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// A place. Returns at once, or never.
    pub(crate) async fn reach(&self, place: &'static str) {
        if self.0.as_ref().is_some_and(|hook| hook(place)) {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for FailPoints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "FailPoints(hook)" } else { "FailPoints(none)" })
    }
}
