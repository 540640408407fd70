//! Strength of the wall between a sandbox and its host.

use serde::{Deserialize, Serialize};

/// Strength of the wall between a sandbox and its host. Ordered: a level meets a floor that is equal or lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// No wall at all: the `fake` driver.
    None,
    /// Shares the host's kernel.
    Container,
    /// A kernel in user space between sandbox and host.
    Gvisor,
    /// A kernel of its own.
    Vm,
}

impl IsolationLevel {
    /// Every level, weakest first.
    pub const ALL: [Self; 4] = [Self::None, Self::Container, Self::Gvisor, Self::Vm];

    /// Returns the name in requests and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::Vm => "vm",
        }
    }

    /// Returns the level with that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

/// Isolation of a driver's sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// Strength, by which floors compare.
    pub level: IsolationLevel,
    /// Mechanisms, for the status: `namespaces+seccomp+landlock`.
    pub runtime: String,
    /// Network of the machine beside its link.
    #[serde(default)]
    pub network: NetworkIsolation,
}

impl Isolation {
    /// The isolation of machines without a network card.
    pub fn without_network(level: IsolationLevel, runtime: impl Into<String>) -> Self {
        Self { level, runtime: runtime.into(), network: NetworkIsolation::None }
    }
}

/// Means that keep a machine from reaching anything but the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkIsolation {
    /// The machine has no network card; its link is the only way out.
    #[default]
    None,
    /// The machine has a network card, and a network policy of its cluster allows connections to the server only. As strong as
    /// the cluster's enforcement.
    Policy,
}
