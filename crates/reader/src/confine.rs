//! Gives up every right but reading the folders it was given and, for an index, writing one: no new privileges, limits on memory and time,
//! Landlock, seccomp.
//!
//! The source files are hostile and the grammars are C. Whoever takes over the parser finds a process that can read the
//! folders it was given, replace the index that it was given, write to its standard output, and nothing else: no network, no other
//! files, no programs.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::failure::ReaderFailure;

/// Address space. A million lines take less than a fifth of it.
const ADDRESS_SPACE_BYTES: u64 = 3 << 30;
/// Processor time. A million lines take a tenth of it.
const PROCESSOR_SECONDS: u64 = 120;
/// Largest file that standard output may be.
const RESULT_BYTES: u64 = 512 << 20;
/// Open files: the walk holds a few at a time.
const OPEN_FILES: u64 = 128;

/// Where the reader runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderSurroundings {
    /// On the host. The kernel must enforce every wall.
    Host,
    /// In a sandbox, whose walls are around it already, and whose filter may refuse to build more.
    Sandbox,
}

/// The folders of a role.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReaderFolders<'f> {
    /// Folders that are read.
    pub(crate) read: &'f [&'f Path],
    /// A folder whose files are read, written, renamed and removed: that of an index.
    pub(crate) written: Option<&'f Path>,
}

/// Gives up the rights of this process. Must run before the first thread is started and before anything is read.
pub(crate) fn confine(
    folders: &ReaderFolders<'_>,
    surroundings: ReaderSurroundings,
) -> Result<(), ReaderFailure> {
    for (resource, value) in [
        (Resource::As, ADDRESS_SPACE_BYTES),
        (Resource::Cpu, PROCESSOR_SECONDS),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Fsize, RESULT_BYTES),
        (Resource::Core, 0),
    ] {
        limit(resource, value);
    }
    rustix::thread::set_no_new_privs(true).map_err(fails("no-new-privileges"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(fails("non-dumpable"))?;
    let walled = landlock(folders);
    if surroundings == ReaderSurroundings::Host {
        walled?;
    }
    seccomp(folders)
}

/// Lowers a limit. One that is lower already stays.
fn limit(resource: Resource, value: u64) {
    let hard = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let value = value.min(hard);
    // Lowering can't fail; if a filter refuses it, the sandbox's own limits hold.
    let _ = rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) });
}

fn fails<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> ReaderFailure {
    move |error| ReaderFailure::Confine(format!("{what}: {error}"))
}

/// Allows access to the folders, and no other file access.
fn landlock(folders: &ReaderFolders<'_>) -> Result<(), ReaderFailure> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let written = read | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .map_err(fails("Landlock is not in this kernel"))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V7))
        .map_err(fails("file rights"))?
        .scope(Scope::from_all(ABI::V7))
        .map_err(fails("scopes"))?
        .create()
        .map_err(fails("create the rules"))?;
    let read_folders = folders.read.iter().map(|folder| (*folder, read));
    for (folder, access) in read_folders.chain(folders.written.map(|folder| (folder, written))) {
        let handle = std::fs::File::open(folder)
            .map_err(|error| ReaderFailure::Read(format!("open {}", folder.display()), error))?;
        rules = rules.add_rule(PathBeneath::new(handle.as_fd(), access)).map_err(fails("allow a folder"))?;
    }
    let status = rules.restrict_self().map_err(fails("restrict"))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(ReaderFailure::Confine("the kernel did not enforce the file rules".to_owned()));
    }
    Ok(())
}

/// Calls of a program that reads files, computes on threads and writes to open descriptors.
const CALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_openat,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_membarrier,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    // The form of poll on processors that never had the older one.
    #[cfg(not(target_arch = "x86_64"))]
    libc::SYS_ppoll,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that replace the files of an index.
const INDEX_CALLS: &[libc::c_long] = &[
    // The C library opens files by this older name where the processor has it.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_flock,
    libc::SYS_ftruncate,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    libc::SYS_unlinkat,
];

/// Everything else answers EPERM. A thread may be made, a process may not.
fn seccomp(folders: &ReaderFolders<'_>) -> Result<(), ReaderFailure> {
    let index_calls = if folders.written.is_some() { INDEX_CALLS } else { &[] };
    let calls = CALLS.iter().chain(index_calls);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.map(|call| (*call, Vec::new())).collect();
    let thread = libc::CLONE_THREAD as u64;
    let flags = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(thread), thread)
        .map_err(fails("filter"))?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![flags]).map_err(fails("filter"))?]);
    let architecture = std::env::consts::ARCH.try_into().map_err(fails("filter"))?;
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter =
        SeccompFilter::new(rules, refuse, SeccompAction::Allow, architecture).map_err(fails("filter"))?;
    let program: seccompiler::BpfProgram = filter.try_into().map_err(fails("filter"))?;
    seccompiler::apply_filter(&program).map_err(fails("install the filter"))
}
