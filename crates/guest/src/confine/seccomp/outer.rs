//! The filter that a container runtime puts around the whole machine, in the form that OCI runtimes and Docker read.
//!
//! It is made from the same rows. It allows whatever any profile allows, and what init and spawner do with privilege before they take
//! on their own filters, which say no more exactly: of two filters that refuse, the later one's error is told. A guard
//! that libseccomp can't express is left to them.

use serde::Serialize;

use super::table::{Guard, Rule, Test, Who, rows};

/// What init and spawner need before the job exists: a mount namespace that hides keeper's places and covers the host's, and
/// namespaces of the spawner's own.
const AT_START: [&str; 7] = [
    "SYS_mount",
    "SYS_umount2",
    "SYS_move_mount",
    "SYS_open_tree",
    "SYS_mount_setattr",
    "SYS_unshare",
    "SYS_clone",
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
    pub(super) syscalls: Vec<OuterCalls>,
}

/// Calls that get the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OuterCalls {
    pub(super) names: Vec<&'static str>,
    pub(super) action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno_ret: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) args: Vec<OuterArgument>,
}

/// A condition on an argument. All of an entry must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OuterArgument {
    pub(super) index: u8,
    pub(super) value: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value_two: Option<u64>,
    pub(super) op: &'static str,
}

/// What a call gets around the machine.
pub(super) enum Outer {
    Allow,
    Refuse,
    Absent,
    Guarded(Guard),
}

impl OuterProfile {
    /// The filter of a machine whose job may, or may not, make user namespaces.
    pub fn new(nested_user_namespaces: bool) -> Self {
        let (mut allowed, mut refused, mut guarded) = (Vec::new(), Vec::new(), Vec::new());
        for (name, rule) in outer_rules(nested_user_namespaces) {
            match rule {
                Outer::Allow => allowed.push(name),
                Outer::Refuse => refused.push(name),
                Outer::Absent => {}
                Outer::Guarded(guard) => guarded.extend(guard.iter().map(|tests| conditional(name, tests))),
            }
        }
        let plain = |names, action, errno_ret| OuterCalls { names, action, errno_ret, args: Vec::new() };
        let mut syscalls = vec![plain(allowed, ALLOW, None), plain(refused, ERRNO, Some(libc::EPERM))];
        syscalls.extend(guarded);
        Self {
            default_action: ERRNO,
            default_errno_ret: libc::ENOSYS,
            architectures: vec![ARCHITECTURE],
            syscalls,
        }
    }
}

/// Every call of the table by its plain name.
pub(super) fn outer_rules(nested: bool) -> impl Iterator<Item = (&'static str, Outer)> {
    rows().flat_map(move |row| {
        row.calls.iter().map(move |&(name, _)| {
            let rule = match row.rule {
                _ if AT_START.contains(&name) => Outer::Allow,
                Rule::Allow if row.who == Who::NestedJob && !nested => Outer::Refuse,
                Rule::Allow => Outer::Allow,
                Rule::Guarded(guard) if is_expressible(guard) => Outer::Guarded(guard),
                Rule::Guarded(_) => Outer::Allow,
                Rule::Refuse => Outer::Refuse,
                Rule::Absent => Outer::Absent,
            };
            (name.trim_start_matches("SYS_"), rule)
        })
    })
}

/// libseccomp compares an argument once in a rule.
fn is_expressible(guard: Guard) -> bool {
    let once = |tests: &&[Test]| {
        let arguments = tests.iter().map(|test| test.argument);
        arguments.clone().all(|argument| arguments.clone().filter(|other| *other == argument).count() == 1)
    };
    guard.iter().all(once)
}

fn conditional(name: &'static str, tests: &[Test]) -> OuterCalls {
    let args = tests.iter().map(|test| match test.negated {
        true => OuterArgument {
            index: test.argument,
            value: u64::from(test.value),
            value_two: None,
            op: "SCMP_CMP_NE",
        },
        false => OuterArgument {
            index: test.argument,
            value: u64::from(test.mask),
            value_two: Some(u64::from(test.value)),
            op: "SCMP_CMP_MASKED_EQ",
        },
    });
    OuterCalls { names: vec![name], action: ALLOW, errno_ret: None, args: args.collect() }
}
