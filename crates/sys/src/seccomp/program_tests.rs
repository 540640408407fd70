//! The table against its specification, and the compiled program against the table, by interpreting it.

use libc::*;
use proptest::prelude::*;
use seccompiler::sock_filter;

use super::program::{
    ABSENT, ALLOW, AND, IGNORE, JUMP, JUMP_EQUAL, JUMP_NOT_BELOW, KILL, LOAD, NATIVE, REFUSE, RETURN, compile,
};
use super::table::{self, ArgumentTest, CallRule, CallRules, CaseAnswer, FilterProfile};
use super::{OuterArgument, OuterCalls, OuterProfile};

const JOB: FilterProfile = FilterProfile::Job { own_kernel: false };
const KEEPER: FilterProfile = FilterProfile::Keeper { host_sockets: false };
const INIT: FilterProfile = FilterProfile::Init { host_sockets: false };

/// The input of the filter: `struct seccomp_data` without the instruction pointer.
#[derive(Clone, Copy)]
struct Call {
    number: u32,
    architecture: u32,
    arguments: [u64; 6],
}

impl Call {
    fn new(number: c_long, arguments: [u64; 6]) -> Self {
        Self { number: u32::try_from(number).unwrap(), architecture: NATIVE, arguments }
    }

    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.architecture,
            16.. if offset.is_multiple_of(8) => self.arguments[(offset as usize - 16) / 8] as u32,
            16.. if offset.is_multiple_of(4) => (self.arguments[(offset as usize - 16) / 8] >> 32) as u32,
            _ => panic!("load from {offset}"),
        }
    }
}

/// The kernel's part: runs the program on one call.
fn verdict(program: &[sock_filter], call: &Call) -> u32 {
    let (mut position, mut accumulator) = (0, 0);
    loop {
        let step = &program[position];
        position += 1;
        let jump = |taken: bool| usize::from(if taken { step.jt } else { step.jf });
        match step.code {
            LOAD => accumulator = call.word(step.k),
            AND => accumulator &= step.k,
            JUMP => position += step.k as usize,
            JUMP_EQUAL => position += jump(accumulator == step.k),
            JUMP_NOT_BELOW => position += jump(accumulator >= step.k),
            RETURN => return step.k,
            code => panic!("unknown instruction {code:#x}"),
        }
    }
}

/// The rule of the table, without BPF.
fn expected(rules: &CallRules, call: &Call) -> u32 {
    let word = |argument: u8| call.arguments[usize::from(argument)];
    let holds = |test: &ArgumentTest| match *test {
        ArgumentTest::Equal { argument, mask, value } => word(argument) as u32 & mask == value,
        ArgumentTest::Differs { argument, value } => word(argument) as u32 != value,
        ArgumentTest::Null { argument } => word(argument) == 0,
    };
    match rules.get(&call.number) {
        Some(CallRule::Allow) => ALLOW,
        Some(CallRule::Refuse) => REFUSE,
        Some(CallRule::Guarded(guard)) => match guard.iter().find(|case| case.tests.iter().all(holds)) {
            Some(case) if case.answer == CaseAnswer::Run => ALLOW,
            Some(_) => IGNORE,
            None => REFUSE,
        },
        None if (0x4000_0000..0x8000_0000).contains(&call.number) => REFUSE,
        Some(CallRule::Absent) | None => ABSENT,
    }
}

fn ask(profile: FilterProfile, number: c_long, arguments: [u64; 6]) -> u32 {
    verdict(&compile(&table::rules(profile)).unwrap(), &Call::new(number, arguments))
}

/// K5: what no job may ever have.
const NEVER: &[c_long] = &[
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_userfaultfd,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_open_tree,
    SYS_move_mount,
    SYS_mount_setattr,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_open_by_handle_at,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_setns,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_acct,
    SYS_lookup_dcookie,
    SYS_memfd_secret,
    SYS_iopl,
    SYS_ioperm,
    SYS_syslog,
    SYS_fanotify_init,
];

#[test]
fn the_deny_set_is_refused_in_every_profile() {
    for profile in [JOB, KEEPER, INIT] {
        for &number in NEVER {
            assert_eq!(ask(profile, number, [0; 6]), REFUSE, "call {number} for {profile:?}");
        }
    }
}

#[test]
fn namespaces_are_refused() {
    for flag in
        [CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET]
    {
        let arguments = [u64::from((flag | SIGCHLD).cast_unsigned()), 0, 0, 0, 0, 0];
        for number in [SYS_clone, SYS_unshare] {
            assert_eq!(ask(JOB, number, arguments), REFUSE, "{flag:#x}");
        }
    }
    assert_eq!(ask(JOB, SYS_clone, [SIGCHLD as u64, 0, 0, 0, 0, 0]), ALLOW);
    for profile in [JOB, KEEPER, INIT] {
        assert_eq!(ask(profile, SYS_clone3, [0; 6]), ABSENT);
    }
}

#[test]
fn sockets_are_those_of_the_allow_list() {
    let protocols = [0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6, IPPROTO_SCTP, 136, 262];
    let flags = [0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK, 0x10, 1 << 30];
    for (domain, kind) in (0..64).flat_map(|domain| (0..16).map(move |kind| (domain, kind))) {
        for (protocol, flag) in protocols.iter().flat_map(|protocol| flags.map(|flag| (*protocol, flag))) {
            let stream = [0, IPPROTO_TCP].contains(&protocol);
            let allowed = match (domain, kind) {
                (AF_UNIX, SOCK_STREAM | SOCK_DGRAM | SOCK_SEQPACKET) => true,
                (AF_INET | AF_INET6, SOCK_STREAM) => stream,
                (AF_INET, SOCK_DGRAM) => [0, IPPROTO_ICMP, IPPROTO_UDP].contains(&protocol),
                (AF_INET6, SOCK_DGRAM) => [0, IPPROTO_ICMPV6, IPPROTO_UDP].contains(&protocol),
                (AF_NETLINK, SOCK_RAW | SOCK_DGRAM) => protocol == NETLINK_ROUTE,
                _ => false,
            };
            let allowed = allowed && flag & !(SOCK_CLOEXEC | SOCK_NONBLOCK) == 0;
            let arguments = [domain as u64, (kind | flag) as u64, protocol as u64, 0, 0, 0];
            let answer = ask(JOB, SYS_socket, arguments);
            assert_eq!(answer, if allowed { ALLOW } else { REFUSE }, "{domain} {kind} {flag:#x} {protocol}");
        }
    }
    // The kernel looks at 32 bits of an int; so must the filter.
    assert_eq!(ask(JOB, SYS_socket, [(1 << 32) | AF_VSOCK as u64, 1, 0, 0, 0, 0]), REFUSE);
    assert_eq!(ask(JOB, SYS_socketpair, [AF_TIPC as u64, 1, 0, 0, 0, 0]), REFUSE);
}

/// At any other limit than 1 a crash runs the host's core handler, and the job would choose what it reads.
#[test]
fn the_limit_of_core_dumps_stays() {
    const CORE: u64 = RLIMIT_CORE as u64;
    let (limit, round) = (0x7fff_0000_1000, 1 << 32);
    for profile in [JOB, KEEPER, INIT, FilterProfile::Job { own_kernel: true }] {
        for resource in [CORE, CORE | (1 << 32)] {
            for (process, address) in [(0, limit), (2, limit), (0, round)] {
                assert_eq!(ask(profile, SYS_prlimit64, [process, resource, address, 0, 0, 0]), IGNORE);
            }
            assert_eq!(ask(profile, SYS_prlimit64, [0, resource, 0, limit, 0, 0]), ALLOW, "a question");
            assert_eq!(ask(profile, SYS_prlimit64, [1, resource, limit, 0, 0, 0]), REFUSE);
        }
        assert_eq!(ask(profile, SYS_prlimit64, [0, RLIMIT_NOFILE as u64, limit, 0, 0, 0]), ALLOW);
    }
    assert_eq!(ask(JOB, SYS_setrlimit, [CORE, limit, 0, 0, 0, 0]), IGNORE);
    assert_eq!(ask(JOB, SYS_setrlimit, [CORE | (1 << 32), limit, 0, 0, 0, 0]), IGNORE);
    assert_eq!(ask(JOB, SYS_setrlimit, [RLIMIT_NOFILE as u64, limit, 0, 0, 0, 0]), ALLOW);
}

#[test]
fn flushing_all_disks_does_nothing_where_they_are_not_the_jobs() {
    assert_eq!(ask(JOB, SYS_sync, [0; 6]), IGNORE);
    assert_eq!(ask(FilterProfile::Job { own_kernel: true }, SYS_sync, [0; 6]), ALLOW);
    for number in [SYS_fsync, SYS_fdatasync, SYS_syncfs] {
        assert_eq!(ask(JOB, number, [0; 6]), ALLOW);
    }
}

#[test]
fn pages_that_neighbours_share_can_neither_be_asked_for_nor_dropped() {
    assert_eq!(ask(JOB, SYS_preadv2, [0, 0, 0, 0, 0, 8]), ABSENT);
    assert_eq!(ask(JOB, SYS_fadvise64, [0, 0, 0, 4, 0, 0]), IGNORE);
    assert_eq!(ask(JOB, SYS_fadvise64, [0, 0, 0, 2, 0, 0]), ALLOW);
}

#[test]
fn only_a_keeper_whose_link_it_is_may_reach_the_machines_host() {
    let arguments = [AF_VSOCK as u64, SOCK_STREAM as u64, 0, 0, 0, 0];
    for (profile, answer) in [
        (JOB, REFUSE),
        (KEEPER, REFUSE),
        (INIT, REFUSE),
        (FilterProfile::Keeper { host_sockets: true }, ALLOW),
        (FilterProfile::Init { host_sockets: true }, ALLOW),
    ] {
        assert_eq!(ask(profile, SYS_socket, arguments), answer, "{profile:?}");
    }
}

#[test]
fn odd_arguments_are_refused() {
    let device = u64::from(S_IFCHR | 0o666);
    let table: [(c_long, [u64; 6], u32); 16] = [
        (SYS_ioctl, [0, TIOCSTI, 0, 0, 0, 0], REFUSE),
        (SYS_ioctl, [0, TIOCLINUX, 0, 0, 0, 0], REFUSE),
        (SYS_ioctl, [0, TIOCGWINSZ, 0, 0, 0, 0], ALLOW),
        (SYS_ioctl, [0, SIOCGIFBR, 0, 0, 0, 0], REFUSE),
        (SYS_ioctl, [0, SIOCGIFVLAN, 0, 0, 0, 0], REFUSE),
        (SYS_setsockopt, [0, IPPROTO_TCP as u64, TCP_ULP as u64, 0, 0, 0], REFUSE),
        (SYS_setsockopt, [0, IPPROTO_TCP as u64, TCP_NODELAY as u64, 0, 0, 0], ALLOW),
        (SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0], ALLOW),
        (SYS_personality, [8, 0, 0, 0, 0, 0], REFUSE),
        (SYS_mknodat, [0, 0, device, 0, 0, 0], REFUSE),
        (SYS_mknod, [0, device, 0, 0, 0, 0], REFUSE),
        (SYS_mknodat, [0, 0, u64::from(S_IFIFO | 0o600), 0, 0, 0], ALLOW),
        (SYS_renameat2, [0, 0, 0, 0, u64::from(RENAME_WHITEOUT), 0], REFUSE),
        (SYS_prlimit64, [1, 0, 0, 0, 0, 0], REFUSE),
        (SYS_prlimit64, [0, 0, 0, 0, 0, 0], ALLOW),
        (SYS_setpriority, [0, 1, 19, 0, 0, 0], REFUSE),
    ];
    for (number, arguments, answer) in table {
        assert_eq!(ask(JOB, number, arguments), answer, "call {number} with {arguments:?}");
    }
    const TIOCSTI: u64 = 0x5412;
    const TIOCLINUX: u64 = 0x541c;
    const TIOCGWINSZ: u64 = 0x5413;
    const SIOCGIFBR: u64 = 0x8940;
    const SIOCGIFVLAN: u64 = 0x8982;
}

/// The server is keeper's like, and may start workers, which inherit all of it.
#[test]
fn a_server_has_the_calls_of_init() {
    assert_eq!(table::rules(FilterProfile::Server), table::rules(INIT));
}

#[test]
fn keeper_runs_no_programs_and_init_does() {
    for number in [SYS_execve, SYS_execveat, SYS_fork, SYS_vfork] {
        assert_eq!(ask(KEEPER, number, [0; 6]), REFUSE);
        assert_eq!(ask(INIT, number, [0; 6]), ALLOW);
        assert_eq!(ask(JOB, number, [0; 6]), ALLOW);
    }
}

#[test]
fn foreign_architectures_kill_and_x32_is_refused() {
    let program = compile(&table::rules(JOB)).unwrap();
    let native = Call::new(SYS_read, [0; 6]);
    assert_eq!(verdict(&program, &native), ALLOW);
    assert_eq!(verdict(&program, &Call { architecture: 0x4000_0003, ..native }), KILL);
    assert_eq!(verdict(&program, &Call { number: 0x4000_0000, ..native }), REFUSE);
    assert_eq!(verdict(&program, &Call { number: u32::MAX, ..native }), ABSENT);
    assert_eq!(verdict(&program, &Call { number: 5000, ..native }), ABSENT);
}

/// The gaps are those of x86-64.
#[cfg(target_arch = "x86_64")]
#[test]
fn every_known_call_is_listed_once() {
    let mut names = table::names();
    names.sort_by_key(|&(_, number)| number);
    for pair in names.windows(2) {
        assert_ne!(pair[0].1, pair[1].1, "{} and {} share a number", pair[0].0, pair[1].0);
    }
    let listed: Vec<u32> = names.iter().map(|&(_, number)| number).collect();
    // 174, 177, 178: calls that left the kernel with 2.6. 333: io_pgetevents, which belongs to the absent asynchronous I/O.
    // 335 to 423: never given out, but for two that only the kernel's own tracing uses.
    let unlisted: Vec<u32> = (0..=334).chain(424..=469).filter(|number| !listed.contains(number)).collect();
    assert_eq!(unlisted, [174, 177, 178, 333]);
}

proptest! {
    #[test]
    fn the_program_says_what_the_table_says(number in prop_oneof![0..500_u32, any::<u32>()],
        arguments in any::<[u64; 6]>(), small in any::<[u8; 6]>(), use_small: bool, profile in 0..3_usize) {
        let profile = [JOB, KEEPER, INIT][profile];
        let rules = table::rules(profile);
        let arguments = if use_small { small.map(u64::from) } else { arguments };
        let call = Call { number, architecture: NATIVE, arguments };
        prop_assert_eq!(verdict(&compile(&rules).unwrap(), &call), expected(&rules, &call));
    }
}

/// The answer of the filter around the machine to a call.
fn around(profile: &OuterProfile, name: &str, arguments: &[u64; 6]) -> Option<&'static str> {
    let holds = |argument: &OuterArgument| {
        let found = arguments[usize::from(argument.index)];
        match argument.op {
            "SCMP_CMP_NE" => found != argument.value,
            "SCMP_CMP_EQ" => found == argument.value,
            "SCMP_CMP_MASKED_EQ" => found & argument.value == argument.value_two.unwrap(),
            op => panic!("{op}"),
        }
    };
    let fits = |calls: &&OuterCalls| calls.names.contains(&name) && calls.args.iter().all(holds);
    profile.syscalls.iter().find(fits).map(|calls| calls.action)
}

#[test]
fn the_deny_set_is_refused_around_the_machine_but_for_what_starts_it() {
    let at_start = ["SYS_mount", "SYS_umount2", "SYS_open_tree", "SYS_move_mount", "SYS_mount_setattr"];
    let profile = OuterProfile::from_table();
    for (name, number) in table::names() {
        if NEVER.iter().any(|&never| u32::try_from(never) == Ok(number)) && !at_start.contains(&name) {
            let name = name.trim_start_matches("SYS_");
            assert_eq!(around(&profile, name, &[0; 6]), Some("SCMP_ACT_ERRNO"), "{name}");
        }
    }
    assert_eq!(around(&profile, "socket", &[AF_VSOCK as u64, 1, 0, 0, 0, 0]), None);
    assert_eq!(around(&profile, "socket", &[AF_UNIX as u64, 1, 0, 0, 0, 0]), Some("SCMP_ACT_ALLOW"));
    assert_eq!(around(&profile, "clone3", &[0; 6]), None);
    assert_eq!(around(&profile, "chroot", &[0; 6]), Some("SCMP_ACT_ERRNO"));
}

#[test]
fn no_two_rules_around_the_machine_contradict_each_other() {
    let profile = OuterProfile::from_table();
    for (name, _) in table::names() {
        let name = name.trim_start_matches("SYS_");
        let entries: Vec<_> = profile.syscalls.iter().filter(|calls| calls.names.contains(&name)).collect();
        // A container runtime takes an unconditional rule as the only rule of a call.
        assert!(entries.len() <= 1 || entries.iter().all(|calls| !calls.args.is_empty()), "{name}");
    }
}

proptest! {
    /// Whatever a filter inside allows gets through the one around it; arguments as programs pass them, without an upper half.
    #[test]
    fn what_is_allowed_inside_is_allowed_around(call in 0..500_usize, arguments in any::<[u32; 6]>(),
        small in any::<[u8; 6]>(), use_small: bool, profile in 0..3_usize) {
        let profile = [JOB, KEEPER, INIT][profile];
        let names = table::names();
        let (name, number) = names[call % names.len()];
        let arguments = if use_small { small.map(u64::from) } else { arguments.map(u64::from) };
        let inside = Call { number, architecture: NATIVE, arguments };
        if verdict(&compile(&table::rules(profile)).unwrap(), &inside) == ALLOW {
            let outer = OuterProfile::from_table();
            let said = around(&outer, name.trim_start_matches("SYS_"), &arguments);
            prop_assert_eq!(said, Some("SCMP_ACT_ALLOW"), "{}", name);
        }
    }
}
