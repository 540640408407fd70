//! The table of drivers. All code that lists, orders or checks drivers reads it.

use sandyard_protocol::drivers as names;

use crate::driver::IsolationLevel;

/// Facts about a driver that is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverEntry {
    /// Name in configuration, requests and status.
    pub name: &'static str,
    /// Isolation of its sandboxes: the weakest, where it depends on the operator's runtime.
    pub level: IsolationLevel,
    /// Who can use the driver.
    pub stage: DriverStage,
    /// Description for people, without a full stop.
    pub about: &'static str,
}

/// Users that a driver is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverStage {
    /// Everybody whose host can run it.
    Built,
    /// Not implemented yet. Requests that name it are refused with that reason.
    Announced,
    /// Only tests use it; requests can't name it.
    Tests,
}

/// Micro virtual machines by Firecracker.
pub const FIRECRACKER: DriverEntry =
    built(names::FIRECRACKER, IsolationLevel::Vm, "micro virtual machines by Firecracker");
/// Containers by the server's own launcher.
pub const NATIVE: DriverEntry =
    built(names::NATIVE, IsolationLevel::Container, "containers by the server's own launcher");
/// Containers by an OCI runtime.
pub const OCI: DriverEntry = built(names::OCI, IsolationLevel::Container, "containers by runc or crun");
/// Containers by Docker or Podman.
pub const DOCKER: DriverEntry =
    built(names::DOCKER, IsolationLevel::Container, "containers by Docker or Podman");
/// Virtual machines by QEMU.
pub const QEMU: DriverEntry = built(names::QEMU, IsolationLevel::Vm, "virtual machines by QEMU");

/// Every driver, in the order in which `auto` tries them.
pub const CATALOGUE: &[DriverEntry] = &[
    FIRECRACKER,
    NATIVE,
    OCI,
    DOCKER,
    QEMU,
    DriverEntry {
        stage: DriverStage::Announced,
        ..built(names::KUBERNETES, IsolationLevel::Container, "pods of a Kubernetes cluster")
    },
    DriverEntry {
        stage: DriverStage::Announced,
        ..built(names::NOMAD, IsolationLevel::Container, "allocations of a Nomad cluster")
    },
    DriverEntry {
        stage: DriverStage::Tests,
        ..built(names::FAKE, IsolationLevel::None, "machines in the memory of a test")
    },
];

const fn built(name: &'static str, level: IsolationLevel, about: &'static str) -> DriverEntry {
    DriverEntry { name, level, stage: DriverStage::Built, about }
}

/// Reports whether a request may name this driver, built or announced.
pub fn is_known(name: &str) -> bool {
    CATALOGUE.iter().any(|entry| entry.name == name && entry.stage != DriverStage::Tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_and_the_names_of_the_contract_are_the_same() {
        let catalogued: Vec<_> = CATALOGUE.iter().map(|entry| entry.name).collect();
        assert_eq!(catalogued, names::NAMES);
    }

    #[test]
    fn announced_drivers_are_known_and_those_of_tests_are_not() {
        assert!(is_known("native") && is_known("kubernetes"));
        assert!(!is_known("fake") && !is_known("natve"));
    }
}
