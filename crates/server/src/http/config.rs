//! The configuration of a listener.

use sandyard_api::SettingView;
use tokio_util::sync::CancellationToken;

use super::limits::ServeLimits;
use crate::app::Yard;
use crate::auth::AccessRules;

/// The HTTP layer of a server.
pub struct HttpConfig {
    /// The yard that is served.
    pub yard: Yard,
    /// Rules for access to the service.
    pub access: AccessRules,
    /// Bounds on connections and times.
    pub limits: ServeLimits,
    /// The version that `/version` reports.
    pub version: String,
    /// Settings in effect, which `/settings` reports. None of them is a secret.
    pub settings: Vec<SettingView>,
    /// Ends streams and waits when the server stops.
    pub shutdown: CancellationToken,
}
