//! The values that keeper gets at its start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use sandyard_protocol::Secret;

use super::agent::AgentPlace;
use super::desktop::DesktopPlaces;

/// The values that keeper gets at its start.
#[derive(Debug, Clone)]
pub struct KeeperConfig {
    /// Proves the host to the guest and the guest to the host.
    pub secret: Secret,
    /// Keeper's own disk. It survives keeper and is hidden from the job.
    pub spool: PathBuf,
    /// A directory that keeper can write and the job can read, for the job's script.
    pub scripts: PathBuf,
    /// The job's working directory, as the job sees it.
    pub workspace: PathBuf,
    /// The environment of every process, before the job adds to it.
    pub env: BTreeMap<String, String>,
    /// Address of the machine's proxy; `None` if the machine shares its host's network.
    pub egress: Option<SocketAddr>,
    /// Sockets and port of the desktop; `None` if the machine has no desktop.
    pub desktop: Option<DesktopPlaces>,
    /// Socket of the agent; `None` if the machine can't run tasks.
    pub agent: Option<AgentPlace>,
}
