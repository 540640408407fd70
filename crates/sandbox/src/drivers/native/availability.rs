//! Whether native sandboxes can start here: what the host must have, and one really started.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::Secret;
use tokio::time::timeout;

use super::cgroup::LayoutError;
use super::liveness::ProcessIdentity;
use super::record::Record;
use super::{Yard, disk};
use crate::driver::{Availability, Limits, OpenError, SandboxId, SandboxSpec};

/// How long the probe may take to dial; a loaded machine needs tens of milliseconds.
const PROBE_PATIENCE: Duration = Duration::from_secs(20);

/// What root must find before anything is tried. Says the first thing that is missing and how to get it.
pub(super) fn require_host() -> Result<(), OpenError> {
    let missing =
        |detail: &str, fix: &str| Err(OpenError::Unusable { detail: detail.to_owned(), fix: fix.to_owned() });
    if std::fs::read_to_string("/proc/sys/user/max_user_namespaces").is_ok_and(|text| text.trim() == "0") {
        return missing("user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000");
    }
    if !Path::new("/dev/loop-control").exists() {
        return missing("there is no /dev/loop-control", "modprobe loop");
    }
    if disk::formatter().is_err() {
        return missing("mkfs.ext4 is not installed", "apt install e2fsprogs");
    }
    Ok(())
}

/// Control groups that can't be used, as a reason and a fix.
pub(super) fn unusable_groups(error: LayoutError) -> OpenError {
    OpenError::Unusable {
        detail: error.to_string(),
        fix: "mount control groups version 2: mount -t cgroup2 none /sys/fs/cgroup".into(),
    }
}

impl OpenError {
    /// The same, but no mere lack if sandboxes of the yard run: whoever took the driver for unusable would take them for dead.
    pub(super) fn unless_in_use(self, known: &[Record]) -> Self {
        let runs = |record: &Record| record.process.as_ref().is_some_and(ProcessIdentity::is_alive);
        match self {
            Self::Unusable { detail, fix } if known.iter().any(runs) => Self::Prepare {
                step: "reach the sandboxes of this yard that run",
                source: io::Error::other(format!("{detail}; {fix}")),
            },
            error => error,
        }
    }
}

impl Yard {
    /// Tries with a real sandbox; until there is an image to try with, tells what the host has.
    pub(super) async fn availability(self: &Arc<Self>) -> Availability {
        let groups = format!("{}control groups {}", self.standing.prefix(), self.layout.describe());
        let Some(image) = (self.config.probe_image)() else {
            return Availability::untried(groups);
        };
        match self.probe(image).await {
            Ok(()) => Availability::usable(groups),
            Err(error) => Availability::missing(error, "run `sandyard doctor native`"),
        }
    }

    async fn probe(self: &Arc<Self>, image_root: PathBuf) -> Result<(), String> {
        let failed = |error: io::Error| format!("probe: {error}");
        let token = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
        let id = SandboxId::parse(&format!("probe-{token:016x}")).ok_or("probe: bad id")?;
        let workspace = self.config.data.join(disk::STOCK).join(format!("new-{id}"));
        std::fs::create_dir_all(&workspace).map_err(failed)?;
        let spec = SandboxSpec {
            id: id.clone(),
            image_root,
            workspace: workspace.clone(),
            limits: Limits { disk_mib: self.config.blank_disk_mib, ..Limits::default() },
            lifetime_s: PROBE_PATIENCE.as_secs() * 2,
            secret: Secret::new([0; 32]),
            nested_user_namespaces: false,
        };
        let tried = self.probe_with(&spec).await;
        let stopped = self.remove(&id).await;
        let removed = std::fs::remove_dir_all(&workspace);
        tried?;
        stopped.map_err(|error| error.to_string())?;
        removed.map_err(failed)
    }

    async fn probe_with(self: &Arc<Self>, spec: &SandboxSpec) -> Result<(), String> {
        self.start(spec).await.map_err(|error| with_source(&error))?;
        let record = self.records.read(&spec.id).ok().flatten().ok_or("probe: its marker is gone")?;
        let process = record.process.ok_or("probe: it has no process")?;
        let dialled = async {
            tokio::select! {
                link = self.links.accept(&spec.id, self.ids.keeper_on_host(record.id_base)) => link.map(drop).map_err(|error| error.to_string()),
                () = process.wait_dead() => Err("its first process died".to_owned()),
            }
        };
        let outcome =
            timeout(PROBE_PATIENCE, dialled).await.unwrap_or_else(|_| Err("it never dialled".into()));
        outcome.map_err(|error| {
            format!("probe: {error}: {}", self.started.console(&spec.id).unwrap_or_default().trim())
        })
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_is_an_error_while_sandboxes_run() {
        let lack = || OpenError::Unusable { detail: "not root".into(), fix: "run as root".into() };
        let mut record = Record {
            id: SandboxId::parse("one").unwrap(),
            id_base: 1,
            groups: "s1".into(),
            workspace: "/w".into(),
            process: None,
        };
        assert!(matches!(lack().unless_in_use(&[record.clone()]), OpenError::Unusable { .. }));
        record.process = Some(ProcessIdentity::of(std::process::id().cast_signed()).unwrap());
        let OpenError::Prepare { source, .. } = lack().unless_in_use(&[record]) else { panic!() };
        assert_eq!(source.to_string(), "not root; run as root");
    }
}
