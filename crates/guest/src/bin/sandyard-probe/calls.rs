//! What the kernel answers to calls that a job has no business making. Each is made in a process of its own, with arguments
//! that do nothing even where it is allowed.

use crate::{ProbeFinding, sys};

/// The C library does not name this call on every processor.
#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: libc::c_long = 320;
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: libc::c_long = 294;

/// Name and number of calls that must be refused (K5).
const CALLS: &[(&str, libc::c_long)] = &[
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("keyctl", libc::SYS_keyctl),
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("chroot", libc::SYS_chroot),
    ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("fspick", libc::SYS_fspick),
    ("open_tree", libc::SYS_open_tree),
    ("move_mount", libc::SYS_move_mount),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("kcmp", libc::SYS_kcmp),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("name_to_handle_at", libc::SYS_name_to_handle_at),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("kexec_load", libc::SYS_kexec_load),
    ("kexec_file_load", KEXEC_FILE_LOAD),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff),
    ("reboot", libc::SYS_reboot),
    ("settimeofday", libc::SYS_settimeofday),
    ("clock_settime", libc::SYS_clock_settime),
    ("setns", libc::SYS_setns),
    ("quotactl", libc::SYS_quotactl),
    ("acct", libc::SYS_acct),
    ("lookup_dcookie", libc::SYS_lookup_dcookie),
    ("memfd_secret", libc::SYS_memfd_secret),
    ("syslog", libc::SYS_syslog),
    #[cfg(target_arch = "x86_64")]
    ("iopl", libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")]
    ("ioperm", libc::SYS_ioperm),
    ("preadv2", libc::SYS_preadv2),
];

/// Socket families and types that must be refused (K5, N9). Never connected.
const SOCKETS: &[(&str, i32, i32, i32)] = &[
    ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
    ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0),
    ("xdp", libc::AF_XDP, libc::SOCK_RAW, 0),
    ("rds", libc::AF_RDS, libc::SOCK_SEQPACKET, 0),
    ("tipc", libc::AF_TIPC, libc::SOCK_SEQPACKET, 0),
    ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 0),
    ("can", libc::AF_CAN, libc::SOCK_RAW, 0),
    ("netlink_audit", libc::AF_NETLINK, libc::SOCK_RAW, 9),
    ("netlink_route", libc::AF_NETLINK, libc::SOCK_RAW, 0),
    ("inet_raw", libc::AF_INET, libc::SOCK_RAW, 1),
    ("inet", libc::AF_INET, libc::SOCK_STREAM, 0),
    ("unix", libc::AF_UNIX, libc::SOCK_STREAM, 0),
];

/// Other protocols than TCP and UDP (N8), which would load a module or leave by themselves.
const PROTOCOLS: &[(&str, i32, i32, i32)] = &[
    ("sctp", libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
    ("sctp_packets", libc::AF_INET, libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP),
    ("dccp", libc::AF_INET, 6, libc::IPPROTO_DCCP),
    ("udp_lite", libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE),
    ("mptcp", libc::AF_INET, libc::SOCK_STREAM, 262),
    ("raw_udp", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_UDP),
    ("raw_icmp6", libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
    ("default_raw", libc::AF_INET, libc::SOCK_RAW, 0),
    ("default_reliable", libc::AF_INET, libc::SOCK_RDM, 0),
    ("default_packets", libc::AF_INET, libc::SOCK_SEQPACKET, 0),
    ("default_packets6", libc::AF_INET6, libc::SOCK_SEQPACKET, 0),
    ("default_dccp", libc::AF_INET, 6, 0),
    ("default_dccp6", libc::AF_INET6, 6, 0),
    ("default_unknown", libc::AF_INET, 10, 0),
    ("datagram_tcp", libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_TCP),
    ("stream_udp", libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_UDP),
    ("odd_flag", libc::AF_INET, libc::SOCK_STREAM | 0x100, 0),
    ("unix_raw", libc::AF_UNIX, libc::SOCK_RAW, 0),
];

/// Requests on sockets that have the kernel load a module or switch to another protocol: bridges, VLANs, and the upper layers of TCP.
/// Made on no socket, so that they do nothing where they are allowed.
const REQUESTS: &[(&str, libc::c_long, [libc::c_long; 2])] = &[
    ("bridge", libc::SYS_ioctl, [0x8940, 0]),
    ("bridge_change", libc::SYS_ioctl, [0x8941, 0]),
    ("bridge_new", libc::SYS_ioctl, [0x89a0, 0]),
    ("bridge_removed", libc::SYS_ioctl, [0x89a1, 0]),
    ("vlan", libc::SYS_ioctl, [0x8982, 0]),
    ("vlan_change", libc::SYS_ioctl, [0x8983, 0]),
    ("upper_layer", libc::SYS_setsockopt, [libc::IPPROTO_TCP as libc::c_long, libc::TCP_ULP as libc::c_long]),
];

/// Bit that marks a call of the x32 interface.
#[cfg(target_arch = "x86_64")]
const X32: libc::c_long = 0x4000_0000;

/// Tries every system call of the table and reports its result.
pub(crate) fn all() -> Vec<ProbeFinding> {
    let mut findings: Vec<_> = CALLS
        .iter()
        .map(|&(name, number)| {
            ProbeFinding::new(format!("K5.{name}"), sys::in_child(|| sys::call(number, [-1; 5])))
        })
        .collect();
    for &(name, family, kind, protocol) in SOCKETS {
        let arguments = [family.into(), kind.into(), protocol.into(), 0, 0];
        let result = sys::in_child(|| sys::call(libc::SYS_socket, arguments));
        findings.push(ProbeFinding::new(format!("K5.socket.{name}"), result));
    }
    for &(name, family, kind, protocol) in PROTOCOLS {
        let arguments = [family.into(), kind.into(), protocol.into(), 0, 0];
        let result = sys::in_child(|| sys::call(libc::SYS_socket, arguments));
        findings.push(ProbeFinding::new(format!("N8.socket.{name}"), result));
    }
    for &(name, number, [first, second]) in REQUESTS {
        let result = sys::in_child(|| sys::call(number, [-1, first, second, 0, 0]));
        findings.push(ProbeFinding::new(format!("N8.request.{name}"), result));
    }
    findings.extend(namespaces());
    findings.extend(foreign());
    let odd = sys::in_child(|| sys::call(libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0]));
    findings.push(ProbeFinding::new("K5.personality", odd));
    let trace = sys::in_child(|| sys::call(libc::SYS_ptrace, [libc::PTRACE_ATTACH.into(), 1, 0, 0, 0]));
    findings.push(ProbeFinding::new("K17.ptrace_first", trace));
    findings
}

fn namespaces() -> Vec<ProbeFinding> {
    let unshare = |flags: i32| sys::in_child(|| sys::call(libc::SYS_unshare, [flags.into(), 0, 0, 0, 0]));
    let cloned = sys::in_child(|| {
        let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
        sys::call(libc::SYS_clone, [flags.into(), 0, 0, 0, 0])
    });
    vec![
        ProbeFinding::new("K4.unshare_user", unshare(libc::CLONE_NEWUSER)),
        ProbeFinding::new("K4.unshare_mount", unshare(libc::CLONE_NEWNS)),
        ProbeFinding::new("K4.clone_user", cloned),
        ProbeFinding::new("K8.clone3", sys::in_child(|| sys::call(libc::SYS_clone3, [0; 5]))),
    ]
}

/// Calls that bypass the 64-bit table. Only x86-64 has other tables that a 64-bit program reaches.
fn foreign() -> Vec<ProbeFinding> {
    vec![
        #[cfg(target_arch = "x86_64")]
        ProbeFinding::new("K6.int80", sys::in_child(sys::call_by_interrupt)),
        #[cfg(target_arch = "x86_64")]
        ProbeFinding::new("K6.x32", sys::in_child(|| sys::call(X32 | libc::SYS_getpid, [0; 5]))),
        ProbeFinding::new("K6.elf32", sys::run_foreign_program("/workspace/.probe-elf32")),
    ]
}
