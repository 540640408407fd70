//! From rules to BPF: a binary search over ranges of call numbers, with the guards as its leaves.
//!
//! A linear chain of comparisons costs eight times as much to install and is walked by every call that has a guard.

use seccompiler::{BpfProgram, sock_filter};

use super::table::{self, ArgumentGuard, ArgumentTest, CallRule, CallRules, CaseAnswer, FilterProfile};

// Offsets in `struct seccomp_data` and opcodes of classic BPF, from linux/seccomp.h and linux/bpf_common.h.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const JUMP_EQUAL: u16 = 0x15;
pub(super) const JUMP_NOT_BELOW: u16 = 0x35;
pub(super) const RETURN: u16 = 0x06;

pub(super) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
pub(super) const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
pub(super) const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
pub(super) const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
/// Error 0: the call returns 0 without having run.
pub(super) const IGNORE: u32 = libc::SECCOMP_RET_ERRNO;

/// The kernel's limit on a program.
const MOST_INSTRUCTIONS: usize = 4096;
/// Call numbers of x86's x32 mode carry this bit; on other architectures nothing does.
const X32: u32 = 0x4000_0000;

#[cfg(target_arch = "x86_64")]
pub(super) const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const NATIVE: u32 = 0xc000_00b7;

/// A range of call numbers with one rule, from `start` to the start of the next range.
struct CallRange {
    start: u32,
    rule: CallRule,
}

/// A filter could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallFilterError {
    /// The table has grown too long.
    #[error("the filter is too long for the kernel")]
    TooLong,
    /// The kernel refused the filter.
    #[error("install the filter: {0}")]
    Refused(seccompiler::Error),
}

/// Installs the filter in this thread and its descendants. Needs no-new-privileges. Comes after all other steps of confinement,
/// some of which it refuses.
pub fn install(profile: FilterProfile) -> Result<(), InstallFilterError> {
    let program = compile(&table::rules(profile)).ok_or(InstallFilterError::TooLong)?;
    seccompiler::apply_filter(&program).map_err(InstallFilterError::Refused)
}

/// Compiles the rules. Returns `None` if the program would be too long for the kernel.
pub(super) fn compile(rules: &CallRules) -> Option<BpfProgram> {
    // The architecture is checked before the number: the same number means another call on another architecture.
    let mut program = vec![
        statement(LOAD, ARCHITECTURE),
        jump(JUMP_EQUAL, NATIVE, 1, 0),
        statement(RETURN, KILL),
        statement(LOAD, NUMBER),
    ];
    program.extend(search(&ranges(rules))?);
    (program.len() <= MOST_INSTRUCTIONS).then_some(program)
}

/// Joins neighbours with the same rule into one range. Numbers between known calls are unknown, so absent.
fn ranges(rules: &CallRules) -> Vec<CallRange> {
    let mut ranges = vec![CallRange { start: 0, rule: CallRule::Absent }];
    let mut next = 0;
    for (number, rule) in rules.iter().map(|(&number, &rule)| (number, rule)) {
        if number > next {
            push(&mut ranges, next, CallRule::Absent);
        }
        push(&mut ranges, number, rule);
        next = number + 1;
    }
    push(&mut ranges, next, CallRule::Absent);
    // The whole x32 table, so that its numbers are not a second way to every call.
    push(&mut ranges, X32, CallRule::Refuse);
    push(&mut ranges, 2 * X32, CallRule::Absent);
    ranges
}

fn push(ranges: &mut Vec<CallRange>, start: u32, rule: CallRule) {
    match ranges.last_mut() {
        Some(last) if last.start == start => last.rule = rule,
        Some(last) if last.rule == rule && !matches!(rule, CallRule::Guarded(_)) => {}
        _ => ranges.push(CallRange { start, rule }),
    }
}

/// The number is in the accumulator; the guards may overwrite it, for nothing follows them.
fn search(ranges: &[CallRange]) -> Option<BpfProgram> {
    match ranges {
        [] => Some(vec![statement(RETURN, ABSENT)]),
        [only] => leaf(only.rule),
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let (below, above) = (search(low)?, search(high)?);
            let mut program = match u8::try_from(below.len()) {
                Ok(skip) => vec![jump(JUMP_NOT_BELOW, high.first()?.start, skip, 0)],
                // A conditional jump reaches 255 instructions; a plain one any distance.
                Err(_) => vec![
                    jump(JUMP_NOT_BELOW, high.first()?.start, 0, 1),
                    statement(JUMP, u32::try_from(below.len()).ok()?),
                ],
            };
            program.extend(below);
            program.extend(above);
            Some(program)
        }
    }
}

fn leaf(rule: CallRule) -> Option<BpfProgram> {
    match rule {
        CallRule::Allow => Some(vec![statement(RETURN, ALLOW)]),
        CallRule::Refuse => Some(vec![statement(RETURN, REFUSE)]),
        CallRule::Absent => Some(vec![statement(RETURN, ABSENT)]),
        CallRule::Guarded(guard) => guarded(guard),
    }
}

/// Each case ends in its answer; a test that fails jumps behind it, to the next case or to the refusal.
fn guarded(guard: ArgumentGuard) -> Option<BpfProgram> {
    let mut program = Vec::new();
    for case in guard {
        let mut left: usize = case.tests.iter().map(test_length).sum();
        for test in case.tests {
            left -= test_length(test);
            push_test(&mut program, test, u8::try_from(left + 1).ok()?);
        }
        program.push(statement(RETURN, if case.answer == CaseAnswer::Run { ALLOW } else { IGNORE }));
    }
    program.push(statement(RETURN, REFUSE));
    Some(program)
}

fn test_length(test: &ArgumentTest) -> usize {
    match test {
        ArgumentTest::Equal { mask: u32::MAX, .. } | ArgumentTest::Differs { .. } => 2,
        ArgumentTest::Equal { .. } => 3,
        ArgumentTest::Null { .. } => 4,
    }
}

fn push_test(program: &mut BpfProgram, test: &ArgumentTest, when_false: u8) {
    // The kernel's record is little-endian on every architecture of ours: the low half of an argument comes first.
    let low = ARGUMENTS + 8 * u32::from(test.argument());
    program.push(statement(LOAD, low));
    match *test {
        ArgumentTest::Equal { mask, value, .. } => {
            if mask != u32::MAX {
                program.push(statement(AND, mask));
            }
            program.push(jump(JUMP_EQUAL, value, 0, when_false));
        }
        ArgumentTest::Differs { value, .. } => program.push(jump(JUMP_EQUAL, value, when_false, 0)),
        ArgumentTest::Null { .. } => {
            program.push(jump(JUMP_EQUAL, 0, 0, when_false + 2));
            program.push(statement(LOAD, low + 4));
            program.push(jump(JUMP_EQUAL, 0, 0, when_false));
        }
    }
}

fn statement(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
