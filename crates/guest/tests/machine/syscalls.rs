//! K5, K6 and K8 from inside a real machine: a probe makes each call and says what the kernel answered.

use crate::support::{Machine, config, obstacle};

/// Calls that must answer EPERM or ENOSYS whatever their arguments; all zero here, so that none could do harm.
const REFUSED: &str = "io_uring_setup:425 io_uring_enter:426 io_uring_register:427 userfaultfd:323 bpf:321 \
    perf_event_open:298 keyctl:250 add_key:248 request_key:249 mount:165 umount2:166 pivot_root:155 fsopen:430 \
    fsconfig:431 fsmount:432 fspick:433 open_tree:428 move_mount:429 mount_setattr:442 ptrace:101 process_vm_readv:310 \
    process_vm_writev:311 kcmp:312 pidfd_getfd:438 open_by_handle_at:304 kexec_load:246 kexec_file_load:320 \
    init_module:175 finit_module:313 delete_module:176 swapon:167 swapoff:168 reboot:169 settimeofday:164 \
    clock_settime:227 setns:308 unshare:272 quotactl:179 quotactl_fd:443 acct:163 lookup_dcookie:212 memfd_secret:447 \
    clone3:435 chroot:161 syslog:103 iopl:172 unknown:500 x32_getpid:1073741863";

/// Prints every call that was not refused.
const PROBE: &str = r#"
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), *[ctypes.c_long(argument) for argument in arguments])
    return ctypes.get_errno()
for row in sys.argv[1].split():
    name, number = row.split(':')
    if call(int(number), 0, 0, 0, 0, 0, 0) not in (1, 38):
        print('not refused:', name)
def expect(name, errno, number, *arguments):
    got = call(number, *arguments)
    if got != errno:
        print(name, 'answered', got, 'instead of', errno)
for name, domain in dict(vsock=40, alg=38, packet=17, xdp=44, rds=21, tipc=30, bluetooth=31, can=29, nfc=39, x25=9).items():
    expect(name, 1, 41, domain, 2, 0)
expect('netlink audit', 1, 41, 16, 3, 9)
expect('netlink route', 0, 41, 16, 3, 0)
expect('sctp', 1, 41, 2, 1, 132)
expect('unix', 0, 41, 1, 1, 0)
expect('tcp', 0, 41, 2, 1, 6)
expect('raw', 1, 41, 2, 3, 1)
for name, flag in dict(ns=0x20000, user=0x10000000, pid=0x20000000, net=0x40000000).items():
    expect('clone new ' + name, 1, 56, flag | 17, 0, 0, 0, 0)
expect('personality', 1, 135, 8)
expect('sti', 1, 16, 0, 0x5412, 0)
expect('device', 1, 259, -100, ctypes.addressof(ctypes.create_string_buffer(b'/workspace/whiteout')), 0o20666, 0)
print('done')
"#;

/// Calls getpid by the 32-bit gate and says so if that returns.
const FOREIGN: &str = r#"
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))
print('answered', ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
"#;

#[tokio::test]
async fn k5_k8_the_deny_set_is_refused_to_the_job() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let machine = Machine::start(&config()).await;
    let finished = machine.run(machine.command(&["python3", "-c", PROBE, REFUSED])).await;
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("done\n", ""));
}

#[tokio::test]
async fn k6_the_32_bit_gate_kills() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let machine = Machine::start(&config()).await;
    let finished = machine.run(machine.command(&["python3", "-c", FOREIGN])).await;
    assert_eq!(
        (finished.stdout.as_str(), finished.exit.signal),
        ("", Some(libc::SIGSYS)),
        "{}",
        finished.stderr
    );
}

/// Asks for a user and a mount namespace.
const UNSHARE: &str = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(ctypes.c_long(272), ctypes.c_long(0x10000000 | 0x20000))
print('unshare', ctypes.get_errno())
"#;

#[tokio::test]
async fn k4_nested_user_namespaces_are_refused() {
    if let Some(reason) = obstacle() {
        return println!("skipped: {reason}");
    }
    let machine = Machine::start(&config()).await;
    let finished = machine.run(machine.command(&["python3", "-c", UNSHARE])).await;
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("unshare 1\n", ""));
}
