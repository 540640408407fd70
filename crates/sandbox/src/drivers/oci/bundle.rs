//! The `config.json` of a container: the same machine as the native driver's, in the terms of the OCI runtime
//! specification.
//!
//! The guest masks paths, in the job's own mounts: masked here, they would keep the guest from mounting a
//! proc for the job (the kernel allows that in a user namespace only while a whole one is visible). Limits
//! are set on groups that the driver makes, so that the job's do not count for keeper. The spawner makes the
//! control group namespace once it is in the job's group: one made by init would keep it from getting there.

use std::io;
use std::path::{Path, PathBuf};

use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Capability, Linux, LinuxBuilder, LinuxCapabilitiesBuilder, LinuxDeviceCgroupBuilder, LinuxDeviceType,
    LinuxIdMappingBuilder, LinuxNamespaceBuilder, LinuxNamespaceType, LinuxResourcesBuilder, LinuxSeccomp,
    Mount, MountBuilder, Process, ProcessBuilder, RootBuilder, Spec, SpecBuilder,
};
use sandyard_protocol::{MemoryMount, limits};
use sandyard_sys::seccomp::OuterProfile;

use super::stage::{self, NodeMaker};
use crate::guest_programs::GUEST_PROGRAM;
use crate::host::layout::{self, BOOT_FILE, BOOT_TARGET, LINK_TARGET, PROGRAMS_TARGET, TERMINAL_GROUP};
use crate::host::sandboxes::ids::Extent;

/// Capabilities by which init makes spawner and keeper. It drops them before the pipe opens: namespaces and mounts, the change
/// to other users, the drop itself, the directories in which job and keeper meet, and the job's own time since boot. In a user
/// namespace `SysTime` sets no clock but those of a time namespace.
const CAPABILITIES: [Capability; 7] = [
    Capability::SysAdmin,
    Capability::SysTime,
    Capability::Setuid,
    Capability::Setgid,
    Capability::Setpcap,
    Capability::Chown,
    Capability::Fowner,
];
/// Major and minor numbers of the devices that every runtime makes.
const DEVICES: [(i64, i64); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];
/// Major number of terminals, of which a job makes as many as it needs.
const TERMINALS: i64 = 136;

pub(super) struct OciBundle<'a> {
    pub(super) host_name: &'a str,
    pub(super) memory_mib: u64,
    /// Map of the sandbox's ids; empty if it has none of its own.
    pub(super) id_map: &'a [Extent],
    /// User namespace that a container with ids of its own joins. The runtime would make one that belongs to
    /// root, with root's limits.
    pub(super) user_namespace: Option<&'a Path>,
    /// Path of the control groups below the roots of the hierarchies.
    pub(super) groups: &'a str,
    /// Directory on the host with the link's socket.
    pub(super) link: &'a Path,
    /// Maker of the device nodes.
    pub(super) nodes: NodeMaker,
    /// `cgroup.procs` files of the job's groups on the host.
    pub(super) job_groups: &'a [PathBuf],
    pub(super) seccomp: LinuxSeccomp,
}

/// Returns the path inside at which init finds the entrance of a group of the job.
pub(super) fn group_file(number: usize) -> PathBuf {
    Path::new(BOOT_TARGET).join(number.to_string())
}

impl OciBundle<'_> {
    pub(super) fn spec(self) -> Result<Spec, OciSpecError> {
        let root = RootBuilder::default().path(stage::root()).readonly(true).build()?;
        SpecBuilder::default()
            .version("1.0.2")
            .hostname(self.host_name)
            .root(root)
            .process(process()?)
            .mounts(self.mounts()?)
            .linux(self.linux()?)
            .build()
    }

    fn linux(self) -> Result<Linux, OciSpecError> {
        let kinds = [
            LinuxNamespaceType::Pid,
            LinuxNamespaceType::Mount,
            LinuxNamespaceType::Network,
            LinuxNamespaceType::Ipc,
            LinuxNamespaceType::Uts,
        ];
        let namespace = |kind| LinuxNamespaceBuilder::default().typ(kind).build();
        let mut namespaces = kinds.into_iter().map(namespace).collect::<Result<Vec<_>, _>>()?;
        if let Some(path) = self.user_namespace {
            let users = LinuxNamespaceBuilder::default().typ(LinuxNamespaceType::User);
            namespaces.push(users.path(path).build()?);
        }
        let mapping = |extent: &Extent| {
            let mapping = LinuxIdMappingBuilder::default().container_id(extent.inside);
            mapping.host_id(extent.outside).size(extent.count).build()
        };
        let mappings = self.id_map.iter().map(mapping).collect::<Result<Vec<_>, _>>()?;
        LinuxBuilder::default()
            .namespaces(namespaces)
            .uid_mappings(mappings.clone())
            .gid_mappings(mappings)
            .cgroups_path(self.groups)
            .resources(LinuxResourcesBuilder::default().devices(device_rules()?).build()?)
            .rootfs_propagation("private")
            .masked_paths(Vec::new())
            .readonly_paths(Vec::new())
            .seccomp(self.seccomp)
            .build()
    }

    fn mounts(&self) -> Result<Vec<Mount>, OciSpecError> {
        let (terminals, most) = (format!("gid={TERMINAL_GROUP}"), format!("max={}", limits::TERMINALS));
        let mut mounts = vec![
            mount("/proc", "proc", "proc".as_ref(), &["nosuid", "nodev", "noexec"])?,
            self.dev()?,
            mount(
                "/dev/pts",
                "devpts",
                "devpts".as_ref(),
                &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", &terminals, &most],
            )?,
        ];
        for memory in layout::memory_mounts(self.memory_mib) {
            mounts.push(memory_mount(&memory)?);
        }
        for place in layout::disk_mounts() {
            let source = stage::disk_place(&place.source);
            mounts.push(mount(&place.target, "bind", &source, &["bind", "nosuid", "nodev"])?);
        }
        let closed = ["bind", "ro", "nosuid", "nodev", "noexec"];
        mounts.push(mount(LINK_TARGET, "bind", self.link, &closed)?);
        mounts.push(mount(PROGRAMS_TARGET, "bind", &stage::programs(), &["bind", "ro", "nosuid", "nodev"])?);
        mounts.push(mount(BOOT_TARGET, "bind", &stage::boot(), &closed)?);
        for (number, procs) in self.job_groups.iter().enumerate() {
            let target = group_file(number).display().to_string();
            mounts.push(mount(&target, "bind", procs, &["bind", "nosuid", "nodev", "noexec"])?);
        }
        Ok(mounts)
    }

    /// A runtime leaves a /dev alone that it gets as a bind mount.
    fn dev(&self) -> Result<Mount, OciSpecError> {
        if self.nodes == NodeMaker::Driver {
            return mount("/dev", "bind", &stage::dev(), &["bind", "ro", "nosuid", "noexec"]);
        }
        let mut options = vec!["nosuid", "noexec", "mode=755", "size=64k", "nr_inodes=64", "ro"];
        // In a user namespace the runtime mounts device nodes one by one; elsewhere it makes them here.
        if !self.id_map.is_empty() {
            options.push("nodev");
        }
        mount("/dev", "tmpfs", "tmpfs".as_ref(), &options)
    }
}

fn process() -> Result<Process, OciSpecError> {
    let capabilities = || CAPABILITIES.into_iter().collect::<std::collections::HashSet<_>>();
    let none = std::collections::HashSet::new;
    let sets = LinuxCapabilitiesBuilder::default()
        .bounding(capabilities())
        .effective(capabilities())
        .permitted(capabilities())
        .inheritable(none())
        .ambient(none())
        .build()?;
    let program = format!("{PROGRAMS_TARGET}/{GUEST_PROGRAM}");
    ProcessBuilder::default()
        .args([program, "init".to_owned(), format!("{BOOT_TARGET}/{BOOT_FILE}")])
        .env(Vec::new())
        .cwd("/")
        .no_new_privileges(true)
        .capabilities(sets)
        .rlimits(Vec::new())
        .build()
}

fn mount(target: &str, kind: &str, source: &Path, options: &[&str]) -> Result<Mount, OciSpecError> {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    MountBuilder::default().destination(target).typ(kind).source(source).options(options).build()
}

fn memory_mount(memory: &MemoryMount) -> Result<Mount, OciSpecError> {
    let MemoryMount { target, size_bytes, inodes, mode, owner } = memory;
    let sized = [
        format!("size={size_bytes}"),
        format!("nr_inodes={inodes}"),
        format!("mode={mode:o}"),
        format!("uid={owner}"),
        format!("gid={owner}"),
    ];
    let options: Vec<&str> =
        ["nosuid", "nodev"].into_iter().chain(sized.iter().map(String::as_str)).collect();
    mount(target, "tmpfs", "tmpfs".as_ref(), &options)
}

/// Returns rules that deny every device but the plain ones and terminals.
fn device_rules() -> Result<Vec<oci_spec::runtime::LinuxDeviceCgroup>, OciSpecError> {
    let rule = || LinuxDeviceCgroupBuilder::default().access("rwm");
    // Order counts: the first rule denies everything, later rules allow.
    let mut rules = vec![rule().allow(false).build()?];
    for (major, minor) in DEVICES {
        let device = rule().allow(true).typ(LinuxDeviceType::C).major(major).minor(minor);
        rules.push(device.build()?);
    }
    rules.push(rule().allow(true).typ(LinuxDeviceType::C).major(TERMINALS).build()?);
    Ok(rules)
}

/// Returns the filter that the runtime puts around the whole container; the guest adds narrower ones inside.
pub(super) fn seccomp() -> io::Result<LinuxSeccomp> {
    let profile = serde_json::to_value(OuterProfile::from_table()).map_err(io::Error::other)?;
    serde_json::from_value(profile).map_err(io::Error::other)
}
