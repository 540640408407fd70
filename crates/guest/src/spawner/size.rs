//! The texts of /proc and /sys that tell the size of the machine, by the limits of its job.
//!
//! Programs choose by them how many threads they start and how much they keep in memory. The kernel's own count the whole host.

use sandyard_protocol::{JobLimits, MachineSize};

/// Directory of the texts that stand for /sys.
pub(super) const SYS: &str = "sys";
/// The memory that the job uses, as a control group tells it.
pub(super) const USED_MEMORY: &str = "sys/fs/cgroup/memory.current";

/// Returns `cpuinfo` with the processors that the job may use.
pub(super) fn cpuinfo(hosts: &str, size: &MachineSize) -> String {
    // One paragraph for each processor, on every architecture of ours.
    let paragraphs = hosts.split_inclusive("\n\n").filter(|paragraph| !paragraph.trim().is_empty());
    paragraphs.take(size.processors()).collect()
}

/// Returns `stat` without its counters: the job's processors, each of them idle, and the time of the boot, by which `ps` knows
/// when a process began.
pub(super) fn quiet_stat(hosts: &str, size: Option<&MachineSize>, booted_s: Option<u64>) -> String {
    let mut left = size.map_or(usize::MAX, MachineSize::processors);
    let mut quiet = |line: &str| match line.split_once(' ') {
        // Two blanks after the sum of all processors, as the kernel writes it.
        Some(("cpu", _)) => "cpu  0 0 0 1 0 0 0 0 0 0\n".to_owned(),
        Some((name, _)) if name.starts_with("cpu") => {
            let shown = left > 0;
            left = left.saturating_sub(1);
            if shown { format!("{name} 0 0 0 1 0 0 0 0 0 0\n") } else { String::new() }
        }
        Some(("btime", _)) => match booted_s {
            Some(seconds) => format!("btime {seconds}\n"),
            None => format!("{line}\n"),
        },
        Some((name, _)) => format!("{name} 0\n"),
        None => String::new(),
    };
    hosts.lines().map(&mut quiet).collect()
}

/// Returns `meminfo` of a machine with the job's memory, of which this much is used. Its length never changes, so that a reader
/// never sees the end of an older text.
pub(super) fn meminfo(size: &MachineSize, used_bytes: u64) -> String {
    let total = size.memory_bytes / 1024;
    let used = (used_bytes / 1024).min(total);
    let free = total - used;
    let lines = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapCached", 0),
        ("Active", used),
        ("Inactive", 0),
        ("Active(anon)", used),
        ("Inactive(anon)", 0),
        ("Active(file)", 0),
        ("Inactive(file)", 0),
        ("Unevictable", 0),
        ("Mlocked", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", used),
        ("Mapped", 0),
        ("Shmem", 0),
        ("KReclaimable", 0),
        ("Slab", 0),
        ("SReclaimable", 0),
        ("SUnreclaim", 0),
        ("CommitLimit", total),
        ("Committed_AS", used),
    ];
    let line = |(name, kib): &(&str, u64)| format!("{:<16}{kib:>12} kB\n", format!("{name}:"));
    let mut text: String = lines.iter().map(line).collect();
    text.push_str("HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n");
    text
}

/// Returns the text of [`USED_MEMORY`], whose length never changes.
pub(super) fn used_memory(bytes: u64) -> String {
    format!("{bytes:>20}\n")
}

/// Returns the files that stand for /sys: the processors, and the limits where programs look for those of their control group. The
/// kernel's own /sys tells about the host's hardware and is not there.
pub(super) fn sys(hosts_processors: usize, size: &MachineSize) -> Vec<(String, String)> {
    let last = size.processors().min(hosts_processors).max(1) - 1;
    let processors = if last == 0 { "0\n".to_owned() } else { format!("0-{last}\n") };
    let mut files: Vec<_> = ["online", "possible", "present"]
        .map(|name| (format!("{SYS}/devices/system/cpu/{name}"), processors.clone()))
        .into();
    let group = [
        ("cgroup.controllers", "cpu memory pids\n".to_owned()),
        ("cpu.max", format!("{} {}\n", size.cpu_quota_us, JobLimits::PERIOD_US)),
        ("memory.max", format!("{}\n", size.memory_bytes)),
        ("memory.swap.max", "0\n".to_owned()),
        ("pids.max", format!("{}\n", size.pids)),
    ];
    files.extend(group.map(|(name, text)| (format!("{SYS}/fs/cgroup/{name}"), text)));
    files.push((USED_MEMORY.to_owned(), used_memory(0)));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: MachineSize = MachineSize { cpu_quota_us: 150_000, memory_bytes: 512 << 20, pids: 64 };
    const STAT: &str = "cpu  9 8 7 6 5 4 3 2 1 0\ncpu0 9 8 7 6 5 4 3 2 1 0\ncpu1 1 1 1 1 1 1 1 1 1 1\ncpu2 1 1 1 1 1 1 1 1 1 1\nintr 99 1 2\nctxt 7\nbtime 1700000000\nprocs_running 3\n";

    #[test]
    fn a_part_of_a_processor_counts_as_one() {
        let processors = |cpu_quota_us| MachineSize { cpu_quota_us, ..SIZE }.processors();
        assert_eq!([1_000, 100_000, 150_000, 200_000].map(processors), [1, 1, 2, 2]);
    }

    #[test]
    fn processors_and_boot_stay_and_no_counter_does() {
        let quiet = "cpu  0 0 0 1 0 0 0 0 0 0\ncpu0 0 0 0 1 0 0 0 0 0 0\ncpu1 0 0 0 1 0 0 0 0 0 0\n";
        let rest = "intr 0\nctxt 0\nbtime 5\nprocs_running 0\n";
        assert_eq!(quiet_stat(STAT, Some(&SIZE), Some(5)), format!("{quiet}{rest}"));
        let whole = quiet_stat(STAT, None, None);
        assert!(whole.contains("\ncpu2 0 0 0 1 ") && whole.contains("btime 1700000000\n"), "{whole}");
    }

    #[test]
    fn cpuinfo_ends_after_the_jobs_processors() {
        let hosts = "processor\t: 0\nmodel\t: x\n\nprocessor\t: 1\n\nprocessor\t: 2\n\n";
        assert_eq!(cpuinfo(hosts, &SIZE), "processor\t: 0\nmodel\t: x\n\nprocessor\t: 1\n\n");
    }

    #[test]
    fn memory_is_the_limit_less_what_is_used() {
        let [empty, full] = [0, u64::MAX].map(|used| meminfo(&SIZE, used));
        assert!(
            empty.contains("MemTotal:             524288 kB\nMemFree:              524288 kB\n"),
            "{empty}"
        );
        assert!(full.contains("MemAvailable:              0 kB\n"), "{full}");
        assert_eq!(empty.len(), full.len());
        assert_eq!(used_memory(0).len(), used_memory(u64::MAX).len());
    }

    #[test]
    fn sys_names_no_processor_that_the_host_lacks() {
        let online =
            |hosts| sys(hosts, &SIZE).into_iter().find(|(name, _)| name.ends_with("online")).unwrap().1;
        assert_eq!([1, 2, 64].map(online), ["0\n", "0-1\n", "0-1\n"]);
    }
}
