//! The rule for each system call, row by row with its reason. This is the specification: tests compare it with the list of
//! calls that a job must never have, and check that every known call is listed exactly once.

#![expect(non_upper_case_globals, reason = "the kernel's names, spelled as libc spells the others")]

use std::collections::BTreeMap;

use libc::*;

/// Answer of a filter to a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRule {
    /// The kernel runs the call.
    Allow,
    /// EPERM: the call exists but is not allowed.
    Refuse,
    /// ENOSYS: as on a kernel without the call, so that programs fall back.
    Absent,
    /// The first case that fits decides; EPERM if none does.
    Guarded(ArgumentGuard),
}

/// Cases of a call, in the order in which they are tried.
pub type ArgumentGuard = &'static [ArgumentCase];

/// An answer to calls whose arguments pass all tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentCase {
    /// Tests, of which all must hold.
    pub tests: &'static [ArgumentTest],
    /// Answer if they do.
    pub answer: CaseAnswer,
}

/// Answer of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseAnswer {
    /// The kernel runs the call.
    Run,
    /// The call reports success and does nothing: programs that insist on it go on.
    Ignore,
}

/// A test of one argument. An `int` or a flag word is compared in its low 32 bits, which are all that the kernel reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentTest {
    /// The low 32 bits have this value under the mask.
    Equal {
        /// Index of the argument, from 0.
        argument: u8,
        /// Bits that are compared.
        mask: u32,
        /// Value that they must have.
        value: u32,
    },
    /// The low 32 bits have another value.
    Differs {
        /// Index of the argument, from 0.
        argument: u8,
        /// Value that they must not have.
        value: u32,
    },
    /// All 64 bits are zero: no pointer. An address may well end in 32 zero bits.
    Null {
        /// Index of the argument, from 0.
        argument: u8,
    },
}

impl ArgumentTest {
    /// Returns the index of the argument.
    pub fn argument(&self) -> u8 {
        match *self {
            Self::Equal { argument, .. } | Self::Differs { argument, .. } | Self::Null { argument } => {
                argument
            }
        }
    }
}

/// Process that a set of rules is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterProfile {
    /// The spawner and every process of the job.
    Job {
        /// True if the kernel serves this machine alone: in a virtual machine.
        own_kernel: bool,
    },
    /// Keeper: no fork, no exec.
    Keeper {
        /// True if its link is a socket to the host of a virtual machine.
        host_sockets: bool,
    },
    /// Init: keeper's calls, and the calls that start keeper again.
    Init {
        /// The same value as for keeper, which inherits this filter.
        host_sockets: bool,
    },
    /// The server on the host, once it is no longer root: the calls of init, without sockets to a machine's host.
    Server,
}

/// Rules by call number.
pub type CallRules = BTreeMap<u32, CallRule>;

/// The profiles that may make the calls of a row; the others get EPERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallUsers {
    /// Job, keeper and init.
    Everyone,
    /// Job and init, not keeper.
    JobAndInit,
    /// Only the spawner and the job.
    Job,
}

/// System calls that share a rule and its reason.
#[derive(Debug)]
pub struct CallRow {
    /// Profiles that the rule applies to.
    pub who: CallUsers,
    /// Answer to those profiles.
    pub rule: CallRule,
    /// Reason for the rule, printed in `docs/seccomp.md`.
    pub why: &'static str,
    /// Names as libc spells them, with their numbers.
    pub calls: &'static [(&'static str, c_long)],
}

/// Returns the rules of one profile. A call whose row is not for this profile is refused.
pub fn rules(profile: FilterProfile) -> CallRules {
    let mut rules = CallRules::new();
    for row in rows() {
        for &(_, number) in row.calls {
            let rule = if gives(row.who, profile) { row.rule } else { CallRule::Refuse };
            if let Ok(number) = u32::try_from(number) {
                rules.insert(number, rule);
            }
        }
    }
    if matches!(
        profile,
        FilterProfile::Keeper { host_sockets: true } | FilterProfile::Init { host_sockets: true }
    ) {
        rules.extend(u32::try_from(SYS_socket).map(|number| (number, CallRule::Guarded(HOST_SOCKETS))));
    }
    // Its disks are this job's alone, and what it flushes survives the machine.
    if profile == (FilterProfile::Job { own_kernel: true }) {
        rules.extend(u32::try_from(SYS_sync).map(|number| (number, CallRule::Allow)));
    }
    rules
}

/// Returns every row of the table.
pub fn rows() -> impl Iterator<Item = &'static CallRow> {
    TABLE.iter().chain(LEGACY)
}

fn gives(who: CallUsers, profile: FilterProfile) -> bool {
    match who {
        CallUsers::Everyone => true,
        CallUsers::JobAndInit => !matches!(profile, FilterProfile::Keeper { .. }),
        CallUsers::Job => matches!(profile, FilterProfile::Job { .. }),
    }
}

macro_rules! row {
    ($who:ident, $rule:expr, $why:literal, [$($call:ident)*]) => {
        CallRow { who: CallUsers::$who, rule: $rule, why: $why, calls: &[$((stringify!($call), $call)),*] }
    };
}

const fn run(tests: &'static [ArgumentTest]) -> ArgumentCase {
    ArgumentCase { tests, answer: CaseAnswer::Run }
}

const fn ignore(tests: &'static [ArgumentTest]) -> ArgumentCase {
    ArgumentCase { tests, answer: CaseAnswer::Ignore }
}

const fn is(argument: u8, value: u32) -> ArgumentTest {
    masked(argument, u32::MAX, value)
}

const fn is_not(argument: u8, value: u32) -> ArgumentTest {
    ArgumentTest::Differs { argument, value }
}

const fn masked(argument: u8, mask: u32, value: u32) -> ArgumentTest {
    ArgumentTest::Equal { argument, mask, value }
}

const fn is_null(argument: u8) -> ArgumentTest {
    ArgumentTest::Null { argument }
}

/// Every CLONE_NEW flag that clone(2) knows; the one for time works with unshare only, which is refused whole.
const CLONE_NEW: u32 = 0x7e02_0000;
const WITHOUT_NAMESPACES: ArgumentGuard = &[run(&[masked(0, CLONE_NEW, 0)])];

/// The type of a socket: the second argument without SOCK_NONBLOCK and SOCK_CLOEXEC. Protocol 0 stands for the default of the
/// type, and an unknown type has the kernel load a module for it.
const fn typed(value: u32) -> ArgumentTest {
    masked(1, !0x0008_0800, value)
}
const STREAM: ArgumentTest = typed(1);
const DATAGRAM: ArgumentTest = typed(2);
const RAW: ArgumentTest = typed(3);
const PACKETS: ArgumentTest = typed(5);
const UNIX: ArgumentTest = is(0, 1);
const INTERNET: ArgumentTest = is(0, 2);
const INTERNET_6: ArgumentTest = is(0, 10);
const NETLINK: ArgumentTest = is(0, 16);
const TO_THE_HOST: ArgumentTest = is(0, 40);
const DEFAULT: ArgumentTest = is(2, 0);
const TCP: ArgumentTest = is(2, 6);
const UDP: ArgumentTest = is(2, 17);

/// Unix sockets, TCP, UDP and ping, and the routing queries that `getaddrinfo` and `ip` make. Not AF_VSOCK, which ignores
/// network namespaces; nor the families, types and protocols that load a module when first asked for.
const PLAIN_SOCKETS: ArgumentGuard = &[
    run(&[UNIX, STREAM]),
    run(&[UNIX, DATAGRAM]),
    run(&[UNIX, PACKETS]),
    run(&[INTERNET, STREAM, DEFAULT]),
    run(&[INTERNET, STREAM, TCP]),
    run(&[INTERNET, DATAGRAM, DEFAULT]),
    run(&[INTERNET, DATAGRAM, UDP]),
    run(&[INTERNET, DATAGRAM, is(2, 1)]),
    run(&[INTERNET_6, STREAM, DEFAULT]),
    run(&[INTERNET_6, STREAM, TCP]),
    run(&[INTERNET_6, DATAGRAM, DEFAULT]),
    run(&[INTERNET_6, DATAGRAM, UDP]),
    run(&[INTERNET_6, DATAGRAM, is(2, 58)]),
    run(&[NETLINK, RAW, DEFAULT]),
    run(&[NETLINK, DATAGRAM, DEFAULT]),
];
/// Unix sockets, TCP, and AF_VSOCK, which in a virtual machine leads to its host: for keeper alone, if that is its link.
const HOST_SOCKETS: ArgumentGuard = &[
    run(&[UNIX, STREAM]),
    run(&[UNIX, DATAGRAM]),
    run(&[UNIX, PACKETS]),
    run(&[INTERNET, STREAM, DEFAULT]),
    run(&[INTERNET, STREAM, TCP]),
    run(&[INTERNET_6, STREAM, DEFAULT]),
    run(&[INTERNET_6, STREAM, TCP]),
    run(&[NETLINK, RAW, DEFAULT]),
    run(&[TO_THE_HOST, STREAM, DEFAULT]),
];
const UNIX_PAIR: ArgumentGuard = &[run(&[UNIX, STREAM]), run(&[UNIX, DATAGRAM]), run(&[UNIX, PACKETS])];
/// TCP_ULP puts another protocol on a connection, such as the kernel's TLS.
const PLAIN_TCP: ArgumentGuard = &[run(&[is_not(1, 6)]), run(&[is_not(2, 31)])];

/// TIOCSTI types into a terminal, TIOCLINUX pastes into a console, TIOCSETD loads line disciplines. The others are questions about
/// bridges and VLANs, which load a module for anybody who asks.
const SAFE_IOCTLS: ArgumentGuard = &[run(&[
    is_not(1, 0x5412),
    is_not(1, 0x541c),
    is_not(1, 0x5423),
    is_not(1, 0x8940),
    is_not(1, 0x8941),
    is_not(1, 0x8982),
    is_not(1, 0x8983),
    is_not(1, 0x89a0),
    is_not(1, 0x89a1),
])];

/// Plain, the query, and without address randomisation (gdb, sanitizers).
const PLAIN_PERSONALITIES: ArgumentGuard =
    &[run(&[is(0, 0)]), run(&[is(0, u32::MAX)]), run(&[is(0, 0x0004_0000)])];

/// The kernel lets anybody make a whiteout device. Regular files, pipes and sockets only.
const fn file_types(argument: u8) -> [[ArgumentTest; 1]; 4] {
    const FORMAT: u32 = 0o170_000;
    [
        [masked(argument, FORMAT, 0)],
        [masked(argument, FORMAT, 0o100_000)],
        [masked(argument, FORMAT, 0o010_000)],
        [masked(argument, FORMAT, 0o140_000)],
    ]
}
const TYPES_AT: [[ArgumentTest; 1]; 4] = file_types(2);
const NO_DEVICES_AT: ArgumentGuard =
    &[run(&TYPES_AT[0]), run(&TYPES_AT[1]), run(&TYPES_AT[2]), run(&TYPES_AT[3])];
/// POSIX_FADV_DONTNEED.
const DROP_PAGES: u32 = 4;
const KEEPS_PAGES: ArgumentGuard = &[run(&[is_not(3, DROP_PAGES)]), ignore(&[])];
const NO_WHITEOUT: ArgumentGuard = &[run(&[masked(4, 4, 0)])];

/// The spawner has the job's user, so the kernel would let the job lower its limits and priority; it is always PID 1.
/// The second form also refuses "all processes of the user" (2 for priorities, 3 for I/O).
const NOT_THE_SPAWNER: ArgumentGuard = &[run(&[is_not(0, 1)])];
const NOT_ITS_PRIORITY: ArgumentGuard = &[run(&[is_not(0, 2), is_not(1, 1)])];
const NOT_ITS_IO_PRIORITY: ArgumentGuard = &[run(&[is_not(0, 3), is_not(1, 1)])];

/// RLIMIT_CORE, which is 1: the one value at which the kernel runs no core handler of the host, whatever `core_pattern` names. At 0
/// it would. A change is ignored and not refused: gpg and ssh-agent give core dumps up and end if they can't, and they get
/// none at 1 either.
const CORE: u32 = 4;
const NOT_ITS_CORE_LIMIT: ArgumentGuard = &[run(&[is_not(0, CORE)]), ignore(&[])];
/// Others' limits likewise, but for PID 1. Without new values the call is a question.
const NEITHER_SPAWNER_NOR_CORE: ArgumentGuard =
    &[run(&[is_not(0, 1), is_not(1, CORE)]), run(&[is_not(0, 1), is_null(2)]), ignore(&[is_not(0, 1)])];

const IGNORED: ArgumentGuard = &[ignore(&[])];

const SYS_cachestat: c_long = 451;
const SYS_fchmodat2: c_long = 452;
const SYS_map_shadow_stack: c_long = 453;
const SYS_futex_wake: c_long = 454;
const SYS_futex_wait: c_long = 455;
const SYS_futex_requeue: c_long = 456;
const SYS_statmount: c_long = 457;
const SYS_listmount: c_long = 458;
const SYS_lsm_get_self_attr: c_long = 459;
const SYS_lsm_set_self_attr: c_long = 460;
const SYS_lsm_list_modules: c_long = 461;
const SYS_setxattrat: c_long = 463;
const SYS_getxattrat: c_long = 464;
const SYS_listxattrat: c_long = 465;
const SYS_removexattrat: c_long = 466;
const SYS_open_tree_attr: c_long = 467;
const SYS_file_getattr: c_long = 468;
const SYS_file_setattr: c_long = 469;

use CallRule::{Absent, Allow, Guarded, Refuse};

const TABLE: &[CallRow] = &[
    row!(Everyone, Allow, "reading, writing and waiting on descriptors one has", [SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev
        SYS_pwritev2 SYS_lseek SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_fcntl SYS_pipe2 SYS_sendfile SYS_splice SYS_tee
        SYS_copy_file_range SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
        SYS_eventfd2 SYS_signalfd4 SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime SYS_memfd_create]),
    row!(
        Everyone,
        Guarded(SAFE_IOCTLS),
        "devices one has open, but for typing into a terminal (TIOCSTI), pasting into a console (TIOCLINUX), and loading line disciplines (TIOCSETD), bridges and VLANs (SIOCGIFBR, SIOCGIFVLAN and the like)",
        [SYS_ioctl]
    ),
    row!(Job, Allow, "pages given to a pipe", [SYS_vmsplice]),
    row!(Everyone, Allow, "files by name, with the rights that user, mounts and Landlock leave", [SYS_openat SYS_openat2 SYS_fstat SYS_newfstatat SYS_statx SYS_faccessat SYS_faccessat2
        SYS_readlinkat SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_mkdirat SYS_unlinkat SYS_renameat SYS_linkat
        SYS_symlinkat SYS_truncate SYS_ftruncate SYS_fallocate SYS_fsync SYS_fdatasync SYS_syncfs
        SYS_sync_file_range SYS_fchmod SYS_fchmodat SYS_fchmodat2 SYS_fchown SYS_fchownat SYS_utimensat SYS_umask SYS_statfs
        SYS_fstatfs SYS_flock SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch SYS_getxattr SYS_lgetxattr
        SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr]),
    row!(
        Everyone,
        Guarded(KEEPS_PAGES),
        "advice on reading, but for dropping pages (POSIX_FADV_DONTNEED), which does nothing: neighbours read the image from the same pages, and whoever drops them can see when they come back",
        [SYS_fadvise64]
    ),
    row!(
        Everyone,
        Guarded(NO_WHITEOUT),
        "renames and exchanges, but no whiteout devices, which the kernel lets anybody make",
        [SYS_renameat2]
    ),
    row!(Job, Allow, "attributes of one's own files", [SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr
        SYS_readahead]),
    row!(
        Job,
        Guarded(IGNORED),
        "does nothing: it would flush the disks of the host and of every neighbour. fsync and syncfs flush the job's own. In a virtual machine it runs",
        [SYS_sync]
    ),
    row!(Job, Guarded(NO_DEVICES_AT), "regular files, pipes and sockets, no devices", [SYS_mknodat]),
    row!(Everyone, Allow, "memory of one's own", [SYS_mmap SYS_munmap SYS_mprotect SYS_mremap SYS_madvise SYS_brk SYS_msync SYS_mincore SYS_mlock
        SYS_mlock2 SYS_munlock SYS_membarrier SYS_mseal]),
    row!(Job, Allow, "locked and keyed memory, for language runtimes and browsers", [SYS_mlockall SYS_munlockall SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_remap_file_pages
        SYS_get_mempolicy SYS_map_shadow_stack]),
    row!(Everyone, Guarded(WITHOUT_NAMESPACES), "threads and processes, but no new namespaces", [SYS_clone]),
    row!(Everyone, Allow, "threads, time, signals, and questions about oneself", [SYS_exit SYS_exit_group SYS_futex SYS_futex_waitv SYS_futex_wake SYS_futex_wait SYS_futex_requeue
        SYS_set_robust_list SYS_get_robust_list SYS_set_tid_address SYS_rseq SYS_restart_syscall SYS_sched_yield
        SYS_sched_getaffinity SYS_getcpu SYS_nanosleep SYS_clock_nanosleep SYS_clock_gettime SYS_clock_getres
        SYS_gettimeofday SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigtimedwait
        SYS_rt_sigsuspend SYS_sigaltstack SYS_tgkill SYS_tkill SYS_kill SYS_getpid SYS_getppid SYS_gettid SYS_getuid
        SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups SYS_getpgid SYS_getsid SYS_uname
        SYS_sysinfo SYS_getrusage SYS_times SYS_getrandom SYS_prctl SYS_capget SYS_seccomp SYS_setsid SYS_setpgid
        SYS_wait4 SYS_waitid SYS_pidfd_open SYS_pidfd_send_signal]),
    row!(
        Everyone,
        Guarded(NEITHER_SPAWNER_NOR_CORE),
        "limits of oneself and one's children, not of PID 1: the spawner has the job's user. A change of RLIMIT_CORE does nothing: it stays at 1, where no crash reaches the host's core handler",
        [SYS_prlimit64]
    ),
    row!(Job, Guarded(NOT_ITS_CORE_LIMIT), "limits of oneself, by the older name", [SYS_setrlimit]),
    row!(Job, Allow, "timers, queued signals and questions about scheduling", [SYS_getitimer SYS_setitimer SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun
        SYS_timer_delete SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_getrlimit SYS_getpriority
        SYS_sched_getparam SYS_sched_getscheduler SYS_sched_getattr SYS_sched_get_priority_max SYS_sched_get_priority_min
        SYS_sched_rr_get_interval SYS_ioprio_get]),
    row!(Job, Guarded(NOT_THE_SPAWNER), "scheduling of one's own processes, not of PID 1", [SYS_sched_setparam SYS_sched_setscheduler SYS_sched_setattr
        SYS_sched_setaffinity]),
    row!(
        Job,
        Guarded(NOT_ITS_PRIORITY),
        "priority of one's own processes, not of PID 1 nor of all at once",
        [SYS_setpriority]
    ),
    row!(Job, Guarded(NOT_ITS_IO_PRIORITY), "I/O priority, likewise", [SYS_ioprio_set]),
    row!(JobAndInit, Allow, "programs; keeper runs none", [SYS_execve SYS_execveat]),
    row!(Job, Allow, "changing to one's own ids is harmless, and programs do it; without capabilities there are no others", [SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid
        SYS_setgroups SYS_capset]),
    row!(
        Job,
        Guarded(PLAIN_PERSONALITIES),
        "the plain personality, asking for it, and switching off address randomisation (gdb, sanitizers)",
        [SYS_personality]
    ),
    row!(Everyone, Allow, "giving up more, which Chromium and others do", [SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self]),
    row!(
        Everyone,
        Guarded(PLAIN_SOCKETS),
        "Unix sockets, TCP, UDP, ping, and the routing queries of getaddrinfo and ip; not AF_VSOCK, which ignores network namespaces, nor families, types and protocols that load a module when first asked for",
        [SYS_socket]
    ),
    row!(Everyone, Guarded(UNIX_PAIR), "pairs of Unix sockets", [SYS_socketpair]),
    row!(Everyone, Allow, "what is done with sockets", [SYS_connect SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg
        SYS_sendmmsg SYS_recvmmsg SYS_shutdown SYS_getsockname SYS_getpeername SYS_getsockopt]),
    row!(
        Everyone,
        Guarded(PLAIN_TCP),
        "options of sockets, but for another protocol on a TCP connection (TCP_ULP)",
        [SYS_setsockopt]
    ),
    row!(Job, Allow, "System V and POSIX queues, semaphores and shared memory, in the machine's own IPC namespace; X uses them", [SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semtimedop SYS_semctl SYS_msgget
        SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify
        SYS_mq_getsetattr]),
    row!(Everyone, Absent, "libc falls back to clone, whose flags a filter can see", [SYS_clone3]),
    row!(
        Everyone,
        Absent,
        "its RWF_NOWAIT tells whether a page is in memory, without bringing it there; libc falls back to preadv",
        [SYS_preadv2]
    ),
    row!(Everyone, Absent, "newer forms of allowed calls, and questions about mounts and modules: programs fall back; old asynchronous I/O counts against a limit of the whole host", [SYS_cachestat SYS_statmount SYS_listmount SYS_lsm_get_self_attr SYS_lsm_set_self_attr
        SYS_lsm_list_modules SYS_setxattrat SYS_getxattrat SYS_listxattrat SYS_removexattrat SYS_file_getattr
        SYS_file_setattr SYS_io_setup SYS_io_destroy SYS_io_getevents SYS_io_submit SYS_io_cancel SYS_nfsservctl]),
    row!(Everyone, Refuse, "mounts and namespaces", [SYS_unshare SYS_chroot SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick
        SYS_open_tree SYS_open_tree_attr SYS_move_mount SYS_mount_setattr]),
    row!(Everyone, Refuse, "other processes' memory and descriptors", [SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise SYS_process_mrelease
        SYS_kcmp SYS_pidfd_getfd SYS_migrate_pages SYS_move_pages]),
    row!(Everyone, Refuse, "large parts of the kernel that a job has no need of, with a history of holes", [SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_userfaultfd SYS_bpf
        SYS_perf_event_open SYS_add_key SYS_request_key SYS_keyctl SYS_memfd_secret SYS_fanotify_init SYS_fanotify_mark
        SYS_name_to_handle_at SYS_open_by_handle_at SYS_lookup_dcookie SYS_mbind SYS_set_mempolicy
        SYS_set_mempolicy_home_node]),
    row!(Everyone, Refuse, "the machine's clock, name, swap, log, modules and power: the host's affair", [SYS_kexec_load SYS_init_module SYS_finit_module SYS_delete_module SYS_swapon SYS_swapoff SYS_reboot
        SYS_settimeofday SYS_clock_settime SYS_adjtimex SYS_clock_adjtime SYS_quotactl SYS_quotactl_fd SYS_acct SYS_syslog
        SYS_sethostname SYS_setdomainname SYS_vhangup]),
];

/// The older names that only this architecture has.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[CallRow] = &[
    row!(Everyone, Allow, "the older names that only this architecture has", [SYS_open SYS_creat SYS_stat SYS_lstat SYS_access SYS_readlink SYS_getdents SYS_mkdir SYS_rmdir SYS_unlink
        SYS_rename SYS_link SYS_symlink SYS_chmod SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat SYS_poll SYS_select
        SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_signalfd SYS_inotify_init SYS_pipe SYS_dup2 SYS_pause SYS_getpgrp
        SYS_time SYS_arch_prctl]),
    row!(Job, Allow, "an old timer", [SYS_alarm]),
    row!(JobAndInit, Allow, "older forms of clone", [SYS_fork SYS_vfork]),
    row!(Job, Guarded(NO_DEVICES), "no devices, by the older name", [SYS_mknod]),
    row!(Everyone, Absent, "never implemented on this architecture, or long gone", [SYS_set_thread_area SYS_get_thread_area SYS_epoll_ctl_old SYS_epoll_wait_old SYS__sysctl SYS_getpmsg
        SYS_putpmsg SYS_afs_syscall SYS_tuxcall SYS_security SYS_vserver]),
    row!(Everyone, Refuse, "segments, ports, and obsolete questions", [SYS_modify_ldt SYS_iopl SYS_ioperm SYS_uselib SYS_ustat SYS_sysfs SYS_kexec_file_load]),
];
#[cfg(target_arch = "x86_64")]
const TYPES: [[ArgumentTest; 1]; 4] = file_types(1);
#[cfg(target_arch = "x86_64")]
const NO_DEVICES: ArgumentGuard = &[run(&TYPES[0]), run(&TYPES[1]), run(&TYPES[2]), run(&TYPES[3])];

#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[CallRow] = &[];

/// Returns every call of the table with its number.
pub fn names() -> Vec<(&'static str, u32)> {
    rows()
        .flat_map(|row| row.calls)
        .filter_map(|&(name, number)| Some((name, u32::try_from(number).ok()?)))
        .collect()
}
