//! Reports whether sandboxes can start through an engine: checks the host, the engine's settings and versions, and starts one.

use super::config::DockerConfig;
use super::engine::EngineMake;
use super::state::DockerState;
use crate::driver::{Availability, Driver, DriverOpenError, Offer};
use crate::host::cgroup::CgroupLayout;
use crate::host::requirements;
use crate::host::start_probe::{CONTAINER_DIAL_TIMEOUT, StartProbe};
use crate::host::version::{self, CRUN_FLOORS, RUNC_FLOORS};

/// The programs whose services are engines.
const ENGINES: [&str; 2] = ["dockerd", "podman"];

/// Checks the host before the first start. The engine itself may be away for a while, so each later call asks
/// it again.
pub(super) fn require_host(config: &DockerConfig, in_use: bool) -> Result<CgroupLayout, DriverOpenError> {
    let is_installed = || ENGINES.iter().any(|name| requirements::installed(name).is_some());
    if !in_use && !config.socket.exists() && !is_installed() {
        let detail = format!("no engine listens at {}", config.socket.display());
        let fix = "install Docker or Podman (`apt install docker.io`) and start its service";
        return Err(DriverOpenError::unusable(detail, fix));
    }
    if !rustix::process::geteuid().is_root() {
        let detail = "it mounts the disks of sandboxes, which only root can";
        return Err(DriverOpenError::unusable(detail, "run the server as root"));
    }
    requirements::mounted_disks()?;
    requirements::control_groups()
}

/// Asks the engine, then starts a sandbox. Without an image to start from, reports the engine's answer.
pub(super) async fn of(state: &DockerState, driver: &dyn Driver) -> Availability {
    let found = match examine(state).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let offer = if found.outdated.is_some() { Offer::WhenNamed } else { Offer::Always };
    let detail = match &found.outdated {
        Some(outdated) => format!("{}; {outdated}", found.described),
        None => found.described,
    };
    let Some(image) = state.config.images.probe_image() else {
        return Availability::untried(detail).offered(offer);
    };
    let (data, disk_mib) = (&state.config.data, state.config.disk_mib);
    let probe = StartProbe { data, image, disk_mib, dial_timeout: CONTAINER_DIAL_TIMEOUT };
    match probe.run(driver, |_| None).await {
        Ok(()) => Availability::usable(detail).offered(offer),
        Err(error) => Availability::missing(error, "run `sandyard doctor docker`"),
    }
}

/// Facts about an engine that may be used.
struct FoundEngine {
    described: String,
    /// Text about the component with known holes, if there is one.
    outdated: Option<String>,
}

async fn examine(state: &DockerState) -> Result<FoundEngine, Availability> {
    let away = |error: std::io::Error| Availability::missing(error.to_string(), "start the engine's service");
    let version = state.engine.version().await.map_err(away)?;
    let info = state.engine.info().await.map_err(away)?;
    let options = info.security_options.unwrap_or_default();
    // An engine that maps ids itself would put the sandbox's ids, and the owners on its disk, somewhere else.
    if options.iter().any(|option| option.contains("rootless") || option.contains("name=userns")) {
        return Err(Availability::missing(
            "the engine maps the ids of containers itself (rootless or userns-remap)",
            "name the socket of an engine that runs as root without userns-remap; each sandbox gets ids of its own",
        ));
    }
    let components = version.components.unwrap_or_default();
    let podman = components.iter().find(|part| part.name == EngineMake::PODMAN);
    let engine = match podman {
        Some(podman) => format!("podman {}", podman.version),
        None => format!("docker {}", version.version.unwrap_or_default()),
    };
    let (outdated, described) = match components.iter().find_map(|part| runtime(&part.name, &part.version)) {
        Some((name, version)) => (outdated(name, &version), format!("{engine}, {name} {version}")),
        None => (Some("its runtime does not tell a version".to_owned()), engine),
    };
    match outdated {
        Some(outdated) if !state.config.allow_outdated_runtime => Err(Availability::missing(
            format!("{described}: {outdated}"),
            "upgrade it, or set `drivers.docker.allow_outdated_runtime = true` and name the driver",
        )),
        outdated => Ok(FoundEngine { described, outdated }),
    }
}

/// Returns the runtime and its version if a part of an engine is one. Docker writes `runc` and `1.3.6`;
/// Podman writes `OCI Runtime (runc)` and the whole output of `runc --version`.
fn runtime(part: &str, version: &str) -> Option<(&'static str, String)> {
    let name = part.strip_prefix("OCI Runtime (").and_then(|rest| rest.strip_suffix(')')).unwrap_or(part);
    let name = ["runc", "crun"].into_iter().find(|known| *known == name)?;
    let first = version.lines().next().unwrap_or_default();
    let version = first.strip_prefix(name).and_then(|rest| rest.trim_start().strip_prefix("version "));
    Some((name, version.unwrap_or(first).trim().to_owned()))
}

/// Returns the fault of a runtime whose version is below the floor of its line.
fn outdated(name: &str, version: &str) -> Option<String> {
    let floors = if name == "crun" { CRUN_FLOORS } else { RUNC_FLOORS };
    if version::parse(version).is_some_and(|version| version::meets(&version, floors)) {
        return None;
    }
    Some(format!("{name} before {} has known holes", floors.first()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_tell_their_runtime() {
        for (part, version, expected) in [
            ("runc", "1.1.5+ds1", Some(("runc", "1.1.5+ds1"))),
            ("OCI Runtime (runc)", "runc version 1.1.5+ds1\ncommit: x", Some(("runc", "1.1.5+ds1"))),
            ("OCI Runtime (crun)", "crun version 1.30\ncommit: abc\nspec: 1.0.0", Some(("crun", "1.30"))),
            ("containerd", "1.6.20", None),
            ("Podman Engine", "4.3.1", None),
        ] {
            let expected = expected.map(|(name, version)| (name, version.to_owned()));
            assert_eq!(runtime(part, version), expected, "{part}");
        }
    }

    #[test]
    fn runtimes_with_known_holes_are_named() {
        for (name, version, old) in [
            ("runc", "1.1.5+ds1", true),
            ("runc", "1.3.6", false),
            ("runc", "1.4.2", true),
            ("runc", "1.5.0", false),
            ("crun", "1.8.1", true),
            ("crun", "1.30", false),
            ("runc", "unknown", true),
        ] {
            assert_eq!(outdated(name, version).is_some(), old, "{name} {version}");
        }
    }
}
