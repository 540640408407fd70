//! The command line of one machine: its devices and nothing else.
//!
//! QEMU gets every file as an open descriptor, so it needs no right to any path. The kernel names disks in
//! the order of their options.

use std::ffi::OsString;
use std::os::fd::RawFd;

use sandyard_protocol::MACHINE_BOOT_ARGUMENT;

use super::host::Accelerator;
use crate::host::vm::machine_plan::{BOOT_DISK, ROOT_DISK, WORK_DISK};

/// Names by which the guest finds its serial lines.
pub(super) const LINK_PORT: &str = "sandyard.link";
pub(super) const CONTROL_PORT: &str = "sandyard.control";
/// Memory for translated code of an emulated processor, beside the machine's own memory.
pub(super) const TRANSLATION_MIB: u64 = 128;

/// One machine, as QEMU's command line describes it.
#[derive(Debug, Clone)]
pub(super) struct QemuMachine {
    pub(super) accelerator: Accelerator,
    pub(super) vcpus: u32,
    pub(super) memory_mib: u64,
    /// Rate of the clock that the guest reads.
    pub(super) tsc_khz: u64,
    pub(super) files: QemuDescriptors,
}

/// Numbers of the descriptors that QEMU inherits.
#[derive(Debug, Clone, Copy)]
pub(super) struct QemuDescriptors {
    pub(super) kernel: RawFd,
    pub(super) initrd: RawFd,
    pub(super) root: RawFd,
    pub(super) work: RawFd,
    pub(super) boot: RawFd,
    pub(super) link: RawFd,
    pub(super) control: RawFd,
}

impl QemuDescriptors {
    pub(super) fn all(&self) -> [RawFd; 7] {
        [self.kernel, self.initrd, self.root, self.work, self.boot, self.link, self.control]
    }
}

impl QemuMachine {
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        add("-name", "sandyard".into());
        add("-machine", "microvm,pcie=off,usb=off,x-option-roms=off,isa-serial=on,rtc=on".into());
        match self.accelerator {
            Accelerator::Kvm => add("-accel", "kvm".into()),
            Accelerator::Tcg => add("-accel", format!("tcg,thread=multi,tb-size={TRANSLATION_MIB}")),
        }
        add("-cpu", if self.accelerator == Accelerator::Kvm { "host" } else { "max" }.into());
        add("-smp", self.vcpus.to_string());
        add("-m", format!("{}M", self.memory_mib));
        add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into());
        let files = &self.files;
        add("-kernel", format!("/proc/self/fd/{}", files.kernel));
        add("-initrd", format!("/proc/self/fd/{}", files.initrd));
        add("-append", self.kernel_arguments());
        add("-chardev", "stdio,id=console,signal=off".into());
        add("-serial", "chardev:console".into());
        for (number, (name, fd, access)) in
            [(ROOT_DISK, files.root, "on"), (WORK_DISK, files.work, "off"), (BOOT_DISK, files.boot, "on")]
                .into_iter()
                .enumerate()
        {
            add("-add-fd", format!("fd={fd},set={number}"));
            add(
                "-blockdev",
                format!(
                    "driver=raw,node-name={name},read-only={access},file.driver=file,file.filename=/dev/fdset/{number}"
                ),
            );
            add("-device", format!("virtio-blk-device,drive={name}"));
        }
        add("-device", "virtio-serial-device,max_ports=3".into());
        for (number, (port, fd)) in (1..).zip([(LINK_PORT, files.link), (CONTROL_PORT, files.control)]) {
            add("-chardev", format!("socket,id=port{number},fd={fd},server=on,wait=off"));
            add("-device", format!("virtserialport,chardev=port{number},name={port},nr={number}"));
        }
        words.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned));
        words.extend(["-display", "none", "-monitor", "none"].map(str::to_owned));
        words.into_iter().map(OsString::from).collect()
    }

    /// Returns the kernel's arguments. Without a known clock rate a boot may hang on a busy host, and so may
    /// the check of the timer. Arguments after the dashes are for the guest's program.
    fn kernel_arguments(&self) -> String {
        format!(
            "console=ttyS0 quiet loglevel=3 reboot=t panic=-1 no_timer_check tsc_early_khz={} random.trust_cpu=on \
             {MACHINE_BOOT_ARGUMENT}{BOOT_DISK} -- machine",
            self.tsc_khz
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(accelerator: Accelerator) -> String {
        let files =
            QemuDescriptors { kernel: 10, initrd: 11, root: 12, work: 13, boot: 14, link: 15, control: 16 };
        let machine = QemuMachine { accelerator, vcpus: 2, memory_mib: 300, tsc_khz: 2_000_000, files };
        let words: Vec<_> = machine.arguments().into_iter().map(|word| word.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn a_machine_has_its_disks_and_lines_and_no_network() {
        let line = machine(Accelerator::Tcg);
        for part in [
            "-accel tcg,",
            "-cpu max",
            "-smp 2 -m 300M",
            "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
            "node-name=vda,read-only=on",
            "node-name=vdb,read-only=off",
            "node-name=vdc,read-only=on",
            "socket,id=port1,fd=15,server=on",
            "virtserialport,chardev=port2,name=sandyard.control",
            "-nodefaults -no-user-config -no-reboot",
            "tsc_early_khz=2000000",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        for part in ["-net", "-nic", "-vnc", "usb-", "virtfs", "-qmp"] {
            assert!(!line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn the_processor_is_the_hosts_only_with_kvm() {
        assert!(machine(Accelerator::Kvm).contains("-accel kvm -cpu host"));
    }
}
