//! The filter that a container runtime puts around the whole machine, in the form that OCI runtimes and
//! Docker read.
//!
//! It is built from the same rows. It allows every call that any profile allows, and the privileged calls
//! that init and spawner make before they install their own, narrower filters. Where two filters refuse a
//! call, the kernel returns the error of the one installed last. A guard that libseccomp can't express is
//! left to the inner filters.

use serde::Serialize;

use super::table::{ArgumentCase, ArgumentGuard, ArgumentTest, CallRule, CaseAnswer, rows};

/// Calls of init and spawner before the job exists: a mount namespace that hides keeper's places and covers the host's,
/// namespaces of the spawner's own, and limits.
const AT_START: [&str; 8] = [
    "SYS_mount",
    "SYS_umount2",
    "SYS_move_mount",
    "SYS_open_tree",
    "SYS_mount_setattr",
    "SYS_unshare",
    "SYS_clone",
    "SYS_prlimit64",
];

const ALLOW: &str = "SCMP_ACT_ALLOW";
const ERRNO: &str = "SCMP_ACT_ERRNO";
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "SCMP_ARCH_X86_64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "SCMP_ARCH_AARCH64";

/// The filter as a document: `linux.seccomp` of an OCI bundle, or a file for `--security-opt seccomp=`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OuterProfile {
    default_action: &'static str,
    default_errno_ret: i32,
    architectures: Vec<&'static str>,
    /// Rules by call, unconditional ones first.
    pub syscalls: Vec<OuterCalls>,
}

/// System calls that share an action and its conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OuterCalls {
    /// Names without the `SYS_` prefix.
    pub names: Vec<&'static str>,
    /// Action for the calls: `SCMP_ACT_ALLOW` or `SCMP_ACT_ERRNO`.
    pub action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno_ret: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    /// Conditions, of which all must hold.
    pub args: Vec<OuterArgument>,
}

/// A condition on one argument of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OuterArgument {
    /// Index of the argument, from 0.
    pub index: u8,
    /// Value to compare with, or the mask of a masked comparison.
    pub value: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Value of a masked comparison.
    pub value_two: Option<u64>,
    /// libseccomp's name of the comparison.
    pub op: &'static str,
}

/// Answer of the outer filter to a call.
#[derive(Debug)]
pub(super) enum OuterRule {
    Allow,
    Refuse,
    Absent,
    Guarded(ArgumentGuard),
}

impl OuterProfile {
    /// Builds the filter from the table.
    pub fn from_table() -> Self {
        let (mut allowed, mut refused, mut guarded) = (Vec::new(), Vec::new(), Vec::new());
        for (name, rule) in outer_rules() {
            match rule {
                OuterRule::Allow => allowed.push(name),
                OuterRule::Refuse => refused.push(name),
                OuterRule::Absent => {}
                OuterRule::Guarded(guard) => {
                    guarded.extend(running(guard).map(|case| conditional(name, case.tests)))
                }
            }
        }
        let plain = |names, action, errno_ret| OuterCalls { names, action, errno_ret, args: Vec::new() };
        let mut syscalls = vec![plain(allowed, ALLOW, None), plain(refused, ERRNO, Some(libc::EPERM))];
        syscalls.extend(guarded);
        Self {
            // A call that no row names gets ENOSYS, so that programs use an older call instead of failing.
            default_action: ERRNO,
            default_errno_ret: libc::ENOSYS,
            architectures: vec![ARCHITECTURE],
            syscalls,
        }
    }
}

/// Returns every call of the table by its plain name, with its rule.
pub(super) fn outer_rules() -> impl Iterator<Item = (&'static str, OuterRule)> {
    rows().flat_map(|row| {
        row.calls.iter().map(|&(name, _)| {
            let rule = match row.rule {
                _ if AT_START.contains(&name) => OuterRule::Allow,
                CallRule::Allow => OuterRule::Allow,
                // The inner filters say that the call succeeded, and theirs is the answer that counts.
                CallRule::Guarded(guard) if running(guard).next().is_none() => OuterRule::Absent,
                CallRule::Guarded(guard) if is_expressible(guard) => OuterRule::Guarded(guard),
                // Allowed here, since the inner filters have the guard; refused here, programs of the job
                // would fail.
                CallRule::Guarded(_) => OuterRule::Allow,
                CallRule::Refuse => OuterRule::Refuse,
                CallRule::Absent => OuterRule::Absent,
            };
            (name.trim_start_matches("SYS_"), rule)
        })
    })
}

/// Returns the cases in which the call runs.
fn running(guard: ArgumentGuard) -> impl Iterator<Item = &'static ArgumentCase> {
    guard.iter().filter(|case| case.answer == CaseAnswer::Run)
}

/// True if libseccomp can express the guard: it compares an argument only once in a rule.
fn is_expressible(guard: ArgumentGuard) -> bool {
    let once = |case: &ArgumentCase| {
        let arguments = case.tests.iter().map(ArgumentTest::argument);
        arguments.clone().all(|argument| arguments.clone().filter(|other| *other == argument).count() == 1)
    };
    guard.iter().all(once)
}

fn conditional(name: &'static str, tests: &[ArgumentTest]) -> OuterCalls {
    let args = tests.iter().map(|test| match *test {
        ArgumentTest::Differs { argument, value } => {
            OuterArgument { index: argument, value: u64::from(value), value_two: None, op: "SCMP_CMP_NE" }
        }
        ArgumentTest::Equal { argument, mask, value } => OuterArgument {
            index: argument,
            value: u64::from(mask),
            value_two: Some(u64::from(value)),
            op: "SCMP_CMP_MASKED_EQ",
        },
        ArgumentTest::Null { argument } => {
            OuterArgument { index: argument, value: 0, value_two: None, op: "SCMP_CMP_EQ" }
        }
    });
    OuterCalls { names: vec![name], action: ALLOW, errno_ret: None, args: args.collect() }
}
