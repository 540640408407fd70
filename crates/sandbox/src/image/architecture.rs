//! The processor that the programs of an image are for.
//!
//! Steps of a build run programs of the image. Those of another processor are run by an emulator that the kernel starts for them
//! (binfmt_misc).

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Folder in which the kernel shows the emulators that it starts.
const EMULATORS: &str = "/proc/sys/fs/binfmt_misc";

/// Processor of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageArchitecture {
    /// 64-bit processors of Intel and AMD.
    #[serde(rename = "x86_64")]
    X86,
    /// 64-bit processors of Arm.
    #[serde(rename = "aarch64")]
    Arm,
}

impl ImageArchitecture {
    /// Every architecture.
    pub const ALL: [Self; 2] = [Self::X86, Self::Arm];

    /// Returns the architecture of this program.
    pub fn native() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Arm } else { Self::X86 }
    }

    /// Returns the name that the kernel and Rust use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// Returns the name that Debian and container engines use.
    pub fn debian_name(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Returns the architecture of either name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name || it.debian_name() == name)
    }

    /// True if this machine runs programs for this processor, by itself or by an emulator.
    pub(super) fn runs_here(self) -> bool {
        self == Self::native() || self.is_emulated_by(Path::new(EMULATORS))
    }

    /// True if the kernel has an emulator that it opened beforehand (flag F), so that it is found inside the image too.
    fn is_emulated_by(self, emulators: &Path) -> bool {
        let entries = fs::read_dir(emulators).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()).any(|text| {
            let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            text.starts_with("enabled")
                && value("interpreter ").is_some_and(|program| program.contains(self.as_str()))
                && value("flags: ").is_some_and(|flags| flags.contains('F'))
        })
    }
}

impl fmt::Display for ImageArchitecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_are_read() {
        for name in ["aarch64", "arm64"] {
            assert_eq!(ImageArchitecture::parse(name), Some(ImageArchitecture::Arm));
        }
        assert_eq!(ImageArchitecture::parse("riscv64"), None);
        assert_eq!(ImageArchitecture::native().as_str(), std::env::consts::ARCH);
    }

    #[test]
    fn an_emulator_counts_if_the_kernel_keeps_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let emulated = |text: &str| {
            fs::write(folder.path().join("qemu-aarch64"), text).unwrap();
            ImageArchitecture::Arm.is_emulated_by(folder.path())
        };
        assert!(emulated(
            "enabled\ninterpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P\nflags: POF\noffset 0\n"
        ));
        assert!(!emulated("enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: OC\n"));
        assert!(!emulated("disabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: F\n"));
        assert!(!emulated("enabled\ninterpreter /usr/bin/qemu-arm-static\nflags: F\n"));
    }
}
