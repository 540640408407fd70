//! The steps of making a sandbox, in the server, in the launcher and inside, by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::host::steps;

/// Step of a start. The order here is the order in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NativeStep {
    /// Writes the file that records the sandbox.
    Marker,
    /// Making or taking the disk image.
    Disk,
    /// Making the control groups and setting limits.
    ControlGroups,
    /// Making the link directory and listening in it.
    Link,
    /// Starting or reaching the launcher process.
    Launcher,
    /// Entering the control groups.
    EnterControlGroups,
    /// Cloning the image's tree.
    ImageTree,
    /// Making device nodes, or verifying and cloning the host's.
    Devices,
    /// Attaching and mounting the disk image.
    DiskMount,
    /// Making the process in its namespaces.
    Namespaces,
    /// Writing the user and group maps.
    IdMaps,
    /// Mapping owners of the mounts to the sandbox's ids.
    MappedMounts,
    /// Becoming root of the user namespace.
    Identity,
    /// Making every mount private.
    PrivateMounts,
    /// Giving image and programs file systems of the sandbox's own.
    PrivateViews,
    /// Entering the new root and letting go of the old one.
    Root,
    /// Mounts proc of the new pid namespace.
    Proc,
    /// Mounts devices and terminals in /dev.
    DeviceMounts,
    /// Mounting the file systems in memory.
    MemoryMounts,
    /// Putting the disk's directories in place.
    DiskPlaces,
    /// Putting the link directory in place.
    LinkMount,
    /// Putting the guest's programs in place.
    ProgramsMount,
    /// Raises the loopback interface.
    Loopback,
    /// Sets the host name.
    HostName,
    /// Leaving the session keyring.
    Keyring,
    /// Making the process that will be the spawner.
    Spawner,
    /// Places descriptors at the numbers that the guest expects.
    Descriptors,
    /// Executes the guest's program.
    Execute,
}

impl NativeStep {
    /// Every step that a fail-point can stop.
    pub const ALL: [Self; 28] = [
        Self::Marker,
        Self::Disk,
        Self::ControlGroups,
        Self::Link,
        Self::Launcher,
        Self::EnterControlGroups,
        Self::ImageTree,
        Self::Devices,
        Self::DiskMount,
        Self::Namespaces,
        Self::IdMaps,
        Self::MappedMounts,
        Self::Identity,
        Self::PrivateMounts,
        Self::PrivateViews,
        Self::Root,
        Self::Proc,
        Self::DeviceMounts,
        Self::MemoryMounts,
        Self::DiskPlaces,
        Self::LinkMount,
        Self::ProgramsMount,
        Self::Loopback,
        Self::HostName,
        Self::Keyring,
        Self::Spawner,
        Self::Descriptors,
        Self::Execute,
    ];
}

impl fmt::Display for NativeStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Marker => "write the sandbox's marker",
            Self::Disk => "prepare the disk image",
            Self::ControlGroups => "make control groups",
            Self::Link => "listen for the link",
            Self::Launcher => "reach the launcher",
            Self::EnterControlGroups => "enter control groups",
            Self::ImageTree => "clone the image's tree",
            Self::Devices => "make device nodes",
            Self::DiskMount => "mount the disk image",
            Self::Namespaces => "create namespaces",
            Self::IdMaps => "write id maps",
            Self::MappedMounts => "map owners of mounts",
            Self::Identity => "become root of the user namespace",
            Self::PrivateMounts => "make mounts private",
            Self::PrivateViews => "give the image a file system of its own",
            Self::Root => "enter the new root",
            Self::Proc => "mount proc",
            Self::DeviceMounts => "fill /dev",
            Self::MemoryMounts => "mount file systems in memory",
            Self::DiskPlaces => "put the disk in place",
            Self::LinkMount => "put the link directory in place",
            Self::ProgramsMount => "put the guest's programs in place",
            Self::Loopback => "bring up loopback",
            Self::HostName => "set the host name",
            Self::Keyring => "leave the session keyring",
            Self::Spawner => "make the spawner's process",
            Self::Descriptors => "place descriptors",
            Self::Execute => "execute the guest",
        })
    }
}

pub(in super::super) type NativeFailure = steps::StepFailure<NativeStep>;
/// The steps of one start that this process does, with their durations.
pub(in super::super) type NativeSteps = steps::StartSteps<NativeStep>;
