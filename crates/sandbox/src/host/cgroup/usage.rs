//! Counters of the job's group.

use std::fs;
use std::io;
use std::path::Path;

use super::groups::Groups;
use super::layout::{CgroupVersion, Controller};
use crate::driver::Usage;

impl Groups {
    /// Returns the counters of the job's group.
    pub(crate) fn usage(&self) -> io::Result<Usage> {
        Ok(Usage {
            cpu_s: self.cpu_s()?,
            memory_bytes: self.memory_bytes().ok(),
            peak_memory_bytes: self.peak_memory_bytes()?,
            memory_kills: self.memory_kills()?,
            pids_refused: self.pids_refused()?,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "processor time stays far below 2^53 microseconds")]
    fn cpu_s(&self) -> io::Result<f64> {
        let (directory, version) = self.at(Controller::CpuAccounting, "job")?;
        match version {
            CgroupVersion::One => Ok(read_number(&directory.join("cpuacct.usage"))? as f64 / 1e9),
            CgroupVersion::Two => Ok(read_field(&directory.join("cpu.stat"), "usage_usec")? as f64 / 1e6),
        }
    }

    fn memory_bytes(&self) -> io::Result<u64> {
        let (directory, version) = self.at(Controller::Memory, "job")?;
        match version {
            CgroupVersion::One => read_number(&directory.join("memory.usage_in_bytes")),
            CgroupVersion::Two => read_number(&directory.join("memory.current")),
        }
    }

    fn peak_memory_bytes(&self) -> io::Result<u64> {
        let (directory, version) = self.at(Controller::Memory, "job")?;
        match version {
            CgroupVersion::One => read_number(&directory.join("memory.max_usage_in_bytes")),
            // Kernels before 5.19 keep no peak.
            CgroupVersion::Two => read_number(&directory.join("memory.peak"))
                .or_else(|_| read_number(&directory.join("memory.current"))),
        }
    }

    fn memory_kills(&self) -> io::Result<u64> {
        let (directory, version) = self.at(Controller::Memory, "job")?;
        let file = match version {
            CgroupVersion::One => "memory.oom_control",
            CgroupVersion::Two => "memory.events",
        };
        read_field(&directory.join(file), "oom_kill")
    }

    fn pids_refused(&self) -> io::Result<u64> {
        let (directory, _) = self.at(Controller::Pids, "job")?;
        read_field(&directory.join("pids.events"), "max")
    }
}

fn read_number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, path.display().to_string()))
}

/// Returns the number after `name` in a file of `name number` lines; zero if the kernel does not count it.
fn read_field(path: &Path, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Ok(value.unwrap_or(0))
}
