//! Reports whether containers of an OCI runtime can start here: checks the host and the runtime's version, and starts one.

use super::config::OciConfig;
use super::runtime::Runtime;
use super::state::OciDriver;
use crate::driver::{Availability, DriverOpenError, Offer};
use crate::host::cgroup::CgroupLayout;
use crate::host::requirements;
use crate::host::start_probe::{CONTAINER_DIAL_TIMEOUT, StartProbe};

/// Checks the host before the first start. Names the first missing part and its remedy. `in_use` is true if sandboxes of the
/// yard run.
pub(super) fn require_host(
    config: &OciConfig,
    in_use: bool,
) -> Result<(Runtime, CgroupLayout), DriverOpenError> {
    if !rustix::process::geteuid().is_root() {
        let fix = "run the server as root, or use the native driver";
        return Err(DriverOpenError::unusable("the server is not root", fix));
    }
    let wanted = config.runtime.as_deref();
    let Some(runtime) = Runtime::find(wanted) else {
        let detail = match wanted {
            Some(name) => format!("{name} is not installed"),
            None => "no OCI runtime is installed".to_owned(),
        };
        return Err(DriverOpenError::unusable(detail, "install runc 1.3.6 or crun 1.30, or newer ones"));
    };
    // A runtime whose sandboxes still run must be able to end them; it starts no others.
    if let (false, Some((detail, fix))) = (in_use, refusal(config, &runtime)) {
        return Err(DriverOpenError::unusable(detail, fix));
    }
    requirements::mounted_disks()?;
    Ok((runtime, requirements::control_groups()?))
}

/// Returns why a runtime must not start sandboxes, and a remedy: it can't at all, or its version has known holes and the
/// operator did not allow it.
pub(super) fn refusal(config: &OciConfig, runtime: &Runtime) -> Option<(String, String)> {
    if let Some(lack) = runtime.kind.lacks() {
        let fix = "use runc or crun: set drivers.oci.runtime".to_owned();
        return Some((format!("{}: {lack}", runtime.described), fix));
    }
    if config.allow_outdated_runtime || !runtime.is_outdated() {
        return None;
    }
    let floors: Vec<_> = runtime.kind.floors().iter().map(ToString::to_string).collect();
    let detail = format!("{} is outdated: it has known holes", runtime.described);
    let fix =
        format!("update it to {} or newer, or set drivers.oci.allow_outdated_runtime", floors.join(", "));
    Some((detail, fix))
}

impl OciDriver {
    /// Starts a sandbox; without an image to start from, reports the state of the host.
    pub(super) async fn try_availability(&self) -> Availability {
        let state = &self.state;
        if let Some((detail, fix)) = refusal(&state.config, &state.runtime) {
            return Availability::missing(detail, fix);
        }
        let (note, offer) = match state.runtime.is_outdated() {
            true => (", outdated and allowed", Offer::WhenNamed),
            false => ("", Offer::Always),
        };
        let detail = format!(
            "{}{note}; control groups {}",
            state.runtime.described,
            state.sandboxes.layout.describe()
        );
        let Some(image) = state.config.images.probe_image() else {
            return Availability::untried(detail).offered(offer);
        };
        let probe = StartProbe {
            data: &state.config.data,
            image,
            disk_mib: state.config.disk_mib,
            dial_timeout: CONTAINER_DIAL_TIMEOUT,
        };
        match probe.run(self, |id| state.started.said(id)).await {
            Ok(()) => Availability::usable(detail).offered(offer),
            Err(error) => Availability::missing(
                format!("{}: {error}", state.runtime.described),
                "use another runtime: set drivers.oci.runtime",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::guest_programs::GuestPrograms;
    use crate::image::ImageStore;

    fn config(runtime: &str, allow_outdated_runtime: bool) -> OciConfig {
        OciConfig {
            data: "/nowhere".into(),
            run: "/nowhere".into(),
            runtime: Some(runtime.to_owned()),
            allow_outdated_runtime,
            disk_mib: 1,
            images: Arc::new(ImageStore::new("/nowhere")),
            programs: GuestPrograms { guest: b"", agent: b"", reader: b"" },
            fail_at: None,
        }
    }

    fn lack(config: &OciConfig) -> (String, String) {
        match require_host(config, false) {
            Err(DriverOpenError::Unusable { detail, fix }) => (detail, fix),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_outdated_runtime_is_refused_unless_it_is_allowed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("runc");
        std::fs::write(&runtime, "#!/bin/sh\necho runc version 1.1.5+ds1\n").unwrap();
        std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let name = runtime.to_str().unwrap();
        let (detail, fix) = lack(&config(name, false));
        assert_eq!(detail, "runc version 1.1.5+ds1 is outdated: it has known holes");
        assert!(fix.contains("1.3.6") && fix.contains("allow_outdated_runtime"), "{fix}");
        require_host(&config(name, true), false).unwrap();
        // A runtime that made running sandboxes can be opened until they end, and starts no others.
        let (runtime, _) = require_host(&config(name, false), true).unwrap();
        assert!(refusal(&config(name, false), &runtime).is_some());
    }

    /// gVisor is refused even where it is allowed, with the reason that matters.
    #[test]
    fn gvisor_is_refused_for_the_reason_that_counts() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("runsc");
        std::fs::write(&runtime, "#!/bin/sh\necho runsc version release-20260101.0\n").unwrap();
        std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let refused = require_host(&config(runtime.to_str().unwrap(), true), false);
        let Err(DriverOpenError::Unusable { detail, fix }) = refused else { panic!("{refused:?}") };
        assert_eq!(
            detail,
            "runsc version release-20260101.0: gVisor's kernel has no Landlock, by which every job is confined"
        );
        assert!(fix.contains("drivers.oci.runtime"), "{fix}");
    }

    #[test]
    fn a_runtime_that_is_not_there_is_named() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (detail, _) = lack(&config("no-such-runtime", true));
        assert_eq!(detail, "no-such-runtime is not installed");
    }
}
