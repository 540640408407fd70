//! The request to the engine: the same machine as the native driver's, in the terms of the engine's API.
//!
//! Engines give containers the host's ids, a /dev with more devices than a job needs, and mounts that allow
//! set-user-id files. `init` and the spawner correct those (`EngineMachine` in the boot document). The
//! spawner masks paths of /proc, in the job's own mounts: masked here, they would keep it from mounting a
//! proc for the job, which the kernel allows in a user namespace only while a whole one is visible. The job's
//! limits are those of groups that the driver makes; the engine's limits are for init and keeper.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountType,
    ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};

use super::engine::EngineMake;
use super::stage::StagedDisk;
use crate::driver::SandboxId;
use crate::guest_programs::GUEST_PROGRAM;
use crate::host::cgroup::{OWN_MEMORY_BYTES, OWN_PIDS};
use crate::host::layout::{self, BOOT_FILE, BOOT_TARGET, LINK_TARGET, PROGRAMS_TARGET};

/// Label with the yard that owns a container.
pub(super) const YARD_LABEL: &str = "dev.sandyard.yard";
/// Label with the sandbox's id.
const SANDBOX_LABEL: &str = "dev.sandyard.sandbox";
/// Capabilities of init before it drops all of them. The first two write the id maps of its user namespace;
/// the third makes one where the host reserves that to the privileged. Init holds them over the host for the
/// milliseconds until it has entered that namespace.
const CAPABILITIES: [&str; 3] = ["SETUID", "SETGID", "SYS_ADMIN"];
/// Process limit of Podman's service, and so the most that it can give. The job's own limit is its control
/// group's.
const PODMAN_PROCESSES: i64 = 32_768;
/// Largest size of a console. Init writes to it only when it can't start.
const CONSOLE_SIZE: &str = "64k";

/// A container about to be made.
pub(super) struct Container<'a> {
    pub(super) id: &'a SandboxId,
    pub(super) yard: &'a str,
    pub(super) make: EngineMake,
    /// The engine's id of the image.
    pub(super) image: String,
    /// Seccomp profile in the engine's form: the text for Docker, a path for Podman.
    pub(super) seccomp: &'a str,
    /// Places where the host has mounted the disk and the file systems in memory.
    pub(super) staged: &'a StagedDisk,
    /// Directory on the host with the link's socket.
    pub(super) link: &'a Path,
    /// Directory on the host with the boot document.
    pub(super) boot: &'a Path,
    /// `cgroup.procs` files of the job's groups on the host.
    pub(super) job_groups: &'a [PathBuf],
}

/// Returns the container's name, which no two yards of a host share.
pub(super) fn name(yard: &str, id: &SandboxId) -> String {
    format!("sandyard-{yard}-{id}")
}

/// Returns the sandbox of a container's name, if it belongs to this yard.
pub(super) fn sandbox_of(yard: &str, name: &str) -> Option<SandboxId> {
    SandboxId::parse(name.strip_prefix(&format!("sandyard-{yard}-"))?)
}

/// Returns the path inside at which init finds the entrance of a group of the job.
pub(super) fn group_file(number: usize) -> PathBuf {
    Path::new(BOOT_TARGET).join(number.to_string())
}

impl Container<'_> {
    pub(super) fn body(self) -> ContainerCreateBody {
        let labels = [(YARD_LABEL, self.yard.to_owned()), (SANDBOX_LABEL, self.id.to_string())];
        let init = [
            format!("{PROGRAMS_TARGET}/{GUEST_PROGRAM}"),
            "init".into(),
            format!("{BOOT_TARGET}/{BOOT_FILE}"),
        ];
        ContainerCreateBody {
            hostname: Some(self.id.to_string()),
            user: Some("0:0".into()),
            env: Some(Vec::new()),
            entrypoint: Some(init.into()),
            cmd: Some(Vec::new()),
            image: Some(self.image.clone()),
            working_dir: Some("/".into()),
            network_disabled: Some(true),
            labels: Some(labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            host_config: Some(self.host_config()),
            ..ContainerCreateBody::default()
        }
    }

    fn host_config(&self) -> HostConfig {
        let own = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
        HostConfig {
            network_mode: Some("none".into()),
            readonly_rootfs: Some(true),
            cap_drop: own(&["ALL"]),
            cap_add: own(&CAPABILITIES),
            security_opt: Some(self.security_options()),
            masked_paths: Some(Vec::new()),
            readonly_paths: Some(Vec::new()),
            memory: Some(OWN_MEMORY_BYTES.cast_signed()),
            memory_swap: Some(OWN_MEMORY_BYTES.cast_signed()),
            pids_limit: Some(OWN_PIDS.cast_signed()),
            ulimits: (self.make == EngineMake::Podman).then(limits),
            // The spawner moves to groups outside of the container's and takes a namespace of its own there.
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::HOST),
            ipc_mode: Some("private".into()),
            mounts: Some(self.mounts()),
            restart_policy: Some(RestartPolicy {
                name: Some(RestartPolicyNameEnum::NO),
                ..RestartPolicy::default()
            }),
            log_config: Some(HostConfigLogConfig {
                typ: Some("json-file".into()),
                config: Some(HashMap::from([("max-size".to_owned(), CONSOLE_SIZE.to_owned())])),
            }),
            privileged: Some(false),
            init: Some(false),
            ..HostConfig::default()
        }
    }

    fn security_options(&self) -> Vec<String> {
        let mut options = vec![
            "no-new-privileges".to_owned(),
            format!("seccomp={}", self.seccomp),
            // The engine's AppArmor profile forbids all mounts, also those by which init covers paths.
            "apparmor=unconfined".to_owned(),
        ];
        // Podman does not read `MaskedPaths`.
        if self.make == EngineMake::Podman {
            options.push("unmask=ALL".to_owned());
        }
        options
    }

    fn mounts(&self) -> Vec<Mount> {
        let places = layout::disk_mounts().into_iter();
        let mut mounts: Vec<_> = places
            .map(|place| bind(&self.staged.disk.join(place.source), &place.target, MountAccess::Write))
            .collect();
        mounts.extend(
            self.staged.memory.iter().map(|(source, target)| bind(source, target, MountAccess::Write)),
        );
        mounts.push(bind(self.link, LINK_TARGET, MountAccess::Read));
        mounts.push(bind(&self.staged.programs, PROGRAMS_TARGET, MountAccess::Read));
        // The boot directory is read-only, but its files for groups are covered by writable mounts below.
        mounts.push(bind(self.boot, BOOT_TARGET, MountAccess::Read));
        for (number, procs) in self.job_groups.iter().enumerate() {
            mounts.push(bind(procs, &group_file(number).display().to_string(), MountAccess::Write));
        }
        mounts
    }
}

/// Returns limits for Podman, which otherwise sets its own and fails where it may not raise them.
fn limits() -> Vec<ResourcesUlimits> {
    let limit = |name: &str, most| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(most),
        hard: Some(most),
    };
    vec![limit("nofile", layout::OPEN_FILES.cast_signed()), limit("nproc", PODMAN_PROCESSES)]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountAccess {
    Read,
    Write,
}

/// Returns a bind mount. Unlike the older form of the API, it fails if the source is missing.
fn bind(source: &Path, target: &str, access: MountAccess) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.display().to_string()),
        target: Some(target.to_owned()),
        read_only: Some(access == MountAccess::Read),
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(make: EngineMake) -> serde_json::Value {
        let container = Container {
            id: &SandboxId::parse("job-1").unwrap(),
            yard: "abc",
            make,
            image: "sha256:1".into(),
            seccomp: "{}",
            staged: &StagedDisk {
                disk: "/s/disk".into(),
                programs: "/p".into(),
                memory: vec![("/s/0".into(), "/run".into())],
            },
            link: Path::new("/l"),
            boot: Path::new("/b"),
            job_groups: &["/sys/fs/cgroup/x/job/cgroup.procs".into()],
        };
        serde_json::to_value(container.body()).unwrap()
    }

    #[test]
    fn nothing_is_asked_for_beyond_the_least() {
        let host = &body(EngineMake::Docker)["HostConfig"];
        assert_eq!(host["NetworkMode"], "none");
        assert_eq!(host["ReadonlyRootfs"], true);
        assert_eq!(host["Privileged"], false);
        assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]));
        assert_eq!(host["CapAdd"], serde_json::json!(["SETUID", "SETGID", "SYS_ADMIN"]));
        assert_eq!(host["SecurityOpt"][0], "no-new-privileges");
        assert_eq!(host["SecurityOpt"][1], "seccomp={}");
        assert_eq!(host["RestartPolicy"]["Name"], "no");
        for absent in
            ["Devices", "Binds", "PidMode", "UTSMode", "PortBindings", "UsernsMode", "DeviceRequests"]
        {
            assert!(host[absent].is_null(), "{absent}");
        }
    }

    #[test]
    fn only_disk_memory_and_the_jobs_groups_can_be_written_and_no_socket_of_an_engine_is_there() {
        let host = &body(EngineMake::Docker)["HostConfig"];
        let mounts = host["Mounts"].as_array().unwrap();
        let written: Vec<_> = mounts.iter().filter(|mount| mount["ReadOnly"] == false).collect();
        assert_eq!(written.len(), 6, "{written:?}");
        assert!(mounts.iter().all(|mount| !mount["Source"].as_str().unwrap().contains("docker.sock")));
    }

    /// Docker refuses an option that it does not know; Podman keeps its masks on without it.
    #[test]
    fn each_engine_is_told_in_its_own_words_to_mask_nothing() {
        let options = |make| body(make)["HostConfig"]["SecurityOpt"].as_array().unwrap().len();
        assert_eq!((options(EngineMake::Docker), options(EngineMake::Podman)), (3, 4));
        assert_eq!(body(EngineMake::Podman)["HostConfig"]["SecurityOpt"][3], "unmask=ALL");
        assert_eq!(body(EngineMake::Docker)["HostConfig"]["MaskedPaths"], serde_json::json!([]));
        assert_eq!(body(EngineMake::Podman)["HostConfig"]["Ulimits"][0]["Name"], "nofile");
        assert!(body(EngineMake::Docker)["HostConfig"]["Ulimits"].is_null());
    }

    #[test]
    fn names_tell_yards_apart() {
        let id = SandboxId::parse("job-1").unwrap();
        assert_eq!(sandbox_of("abc", &name("abc", &id)), Some(id.clone()));
        assert_eq!(sandbox_of("abd", &name("abc", &id)), None);
    }
}
