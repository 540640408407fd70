//! Names of drivers, as requests, configuration and status spell them.
//!
//! The contract of a driver and its properties are the host's (`sandyard_sandbox::drivers::CATALOGUE`). The names are here because
//! the HTTP contract checks them without knowing any driver.

/// Micro virtual machines by Firecracker.
pub const FIRECRACKER: &str = "firecracker";
/// Containers by the server's own launcher.
pub const NATIVE: &str = "native";
/// Containers by an OCI runtime.
pub const OCI: &str = "oci";
/// Containers by Docker or Podman.
pub const DOCKER: &str = "docker";
/// Virtual machines by QEMU.
pub const QEMU: &str = "qemu";
/// Pods of a Kubernetes cluster.
pub const KUBERNETES: &str = "kubernetes";
/// Allocations of a Nomad cluster.
pub const NOMAD: &str = "nomad";
/// Machines in the memory of a test.
pub const FAKE: &str = "fake";

/// Every driver, in the order in which drivers are tried. The server rejects `fake` unless a test runs it.
pub const NAMES: [&str; 8] = [FIRECRACKER, NATIVE, OCI, DOCKER, QEMU, KUBERNETES, NOMAD, FAKE];
