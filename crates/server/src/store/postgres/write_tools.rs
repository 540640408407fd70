//! What writers and their groups need beside the database.

use std::sync::Arc;

use parking_lot::Mutex;

use super::totals::Totals;
use crate::clock::Clock;
use crate::store::AuditSigner;
use crate::store::sealing::StoreSealer;
use crate::store::watch::Watchers;

/// The keys, the clock and the names of a store.
pub(super) struct PostgresTools {
    pub(super) signer: AuditSigner,
    pub(super) sealer: Arc<StoreSealer>,
    pub(super) clock: Clock,
    /// Name of the data folder: earlier servers of the same place are dead.
    pub(super) place: String,
    /// Name of this store, for announcements.
    pub(super) server: String,
}

/// What commits change beside the database.
#[derive(Clone)]
pub(super) struct CommitEffects {
    pub(super) watchers: Watchers,
    pub(super) totals: Arc<Mutex<Totals>>,
}
