//! The handle of a running yard.

use std::sync::Arc;

use super::brief_cache::BriefCache;
use super::open_tickets::Tickets;
use super::owner_cache::OwnerCache;
use super::yard_task::YardTask;
use crate::yard::YardContext;

/// A running yard. Clones are handles to the same one; when the last is dropped without `stop`, it ends as in a crash.
#[derive(Clone)]
pub struct Yard {
    pub(super) context: Arc<YardContext>,
    pub(super) tickets: Arc<Tickets>,
    pub(super) owners: Arc<OwnerCache>,
    pub(super) briefs: Arc<BriefCache>,
    pub(super) running: Arc<YardTask>,
}
