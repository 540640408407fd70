//! The size of the machine that programs see: by it they choose how many threads they start and how much they keep in memory.

use sandyard_sandbox::driver::Limits;

use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError};

/// Less than any host has, so that the host's figures are other ones.
const LIMITS: Limits = Limits { cpus: 0.5, memory_mib: 256, disk_mib: 64, pids: 64, io_mib_s: 256 };
const MEMORY_KIB: u64 = LIMITS.memory_mib * 1024;
/// Memory of a machine's own kernel and of our programs in it, which it shows beside the job's.
const OWN_KERNEL_KIB: u64 = 512 * 1024;
/// Longest time since the boot that a sandbox of this suite may show; the host has run for longer or shows as much.
const LONGEST_UPTIME_S: u64 = 600;

/// Each prints one word that must be the given one. A program that the image lacks is not asked.
const EXACT: [(&str, &str, &str); 8] = [
    ("T1.nproc", "nproc", "1"),
    ("T1.online", "getconf _NPROCESSORS_ONLN", "1"),
    ("T1.cpuinfo", "grep -c ^processor /proc/cpuinfo", "1"),
    ("T1.stat", "grep -c '^cpu[0-9]' /proc/stat", "1"),
    ("T1.sys", "cat /sys/devices/system/cpu/online", "0"),
    ("T1.python", "python3 -c 'import os; print(os.cpu_count())'", "1"),
    ("T1.quota", "cat /sys/fs/cgroup/cpu.max", "50000 100000"),
    ("T1.limit", "cat /sys/fs/cgroup/memory.max", "268435456"),
];

/// Waits in the sandbox until memory that a program holds is missing from what is free.
const GROW: &str = "free_kib() { awk '/^MemAvailable/ {print $2}' /proc/meminfo; }
    before=$(free_kib); held=$(head -c 40000000 /dev/zero | tr '\\0' x)
    for turn in $(seq 300); do (( before - $(free_kib) > 30000 )) && echo less && break; sleep 0.1; done; : \"$held\"";

/// Compares what programs see with the limits.
pub async fn shown_size(subject: &DriverSubject) -> Result<Vec<CheckOutcome>, SuiteError> {
    let session = SandboxSession::start((subject.open)(), subject.spec("size-1", LIMITS)?).await?;
    let mut outcomes = Vec::new();
    for (name, program, expected) in EXACT {
        let word = program.split(' ').next().unwrap_or(program);
        let ran = session.shell(&format!("command -v {word} >/dev/null || exit 9; {program}")).await?;
        let holds = ran.exit.code == 9 || ran.stdout.trim() == expected;
        outcomes.push(CheckOutcome::new(name, holds, format!("{ran:?}")));
    }
    let total = number(&session, "awk '/^MemTotal/ {print $2}' /proc/meminfo").await?;
    let least = if subject.own_kernel { MEMORY_KIB * 3 / 4 } else { MEMORY_KIB };
    let most = if subject.own_kernel { MEMORY_KIB + OWN_KERNEL_KIB } else { MEMORY_KIB };
    outcomes.push(CheckOutcome::new("T1.memory", (least..=most).contains(&total), format!("{total} KiB")));
    let uptime = number(&session, "cut -d. -f1 /proc/uptime").await?;
    outcomes.push(CheckOutcome::new("T1.uptime", uptime < LONGEST_UPTIME_S, format!("{uptime} s")));
    let grown = session.shell(GROW).await?;
    outcomes.push(CheckOutcome::new("T1.grows", grown.stdout == "less\n", format!("{grown:?}")));
    session.stop().await?;
    Ok(outcomes)
}

async fn number(session: &SandboxSession, script: &str) -> Result<u64, SuiteError> {
    Ok(session.shell(script).await?.stdout.trim().parse().unwrap_or(u64::MAX))
}
