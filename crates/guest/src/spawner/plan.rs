//! A command prepared for exec before the fork: checked, bounded, and converted to the kernel's form.

use std::ffi::CString;

use sandyard_protocol::limits::ARGUMENT_BYTES;

use crate::process_host::Command;

/// Directories of programs if the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A command that was not started.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct SpawnRefusal {
    pub(super) what: String,
    pub(super) errno: i32,
}

/// The strings that the child passes to the kernel, made before the fork so that a refusal can say its reason.
#[derive(Debug)]
pub(super) struct ExecPlan {
    pub(super) argv: Vec<CString>,
    pub(super) env: Vec<CString>,
    pub(super) cwd: CString,
    /// Paths to try in order; empty if the program is given as a descriptor.
    pub(super) candidates: Vec<CString>,
}

impl ExecPlan {
    /// Checks and converts a command. `is_given` is true if the program comes as a descriptor and is not searched for.
    pub(super) fn new(command: &Command, is_given: bool) -> Result<Self, SpawnRefusal> {
        let invalid = |what: &str| SpawnRefusal { what: what.into(), errno: libc::EINVAL };
        let program = command
            .argv
            .first()
            .filter(|program| !program.is_empty())
            .ok_or_else(|| invalid("no program"))?;
        // The kernel has a bound of its own, but would report it only in the child.
        let strings = command.argv.iter().map(String::len).sum::<usize>()
            + command.env.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if strings > ARGUMENT_BYTES {
            return Err(SpawnRefusal {
                what: "arguments and environment are too long".into(),
                errno: libc::E2BIG,
            });
        }
        if !command.cwd.starts_with('/') {
            return Err(invalid(&format!("working directory `{}` is not absolute", command.cwd)));
        }
        let path = command.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let text = |string: String| CString::new(string).map_err(|_| invalid("a string holds a NUL byte"));
        Ok(Self {
            argv: command.argv.iter().cloned().map(text).collect::<Result<_, _>>()?,
            env: command
                .env
                .iter()
                .map(|(name, value)| text(format!("{name}={value}")))
                .collect::<Result<_, _>>()?,
            cwd: text(command.cwd.clone())?,
            candidates: if is_given { Vec::new() } else { candidates(program, path) }
                .into_iter()
                .map(text)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the paths to try: the program itself if it is a path, else one for each absolute directory of PATH. A relative directory
/// would depend on the working directory, in which anybody may have put a program of that name.
fn candidates(program: &str, path: &str) -> Vec<String> {
    if program.contains('/') {
        vec![program.to_owned()]
    } else {
        path.split(':')
            .filter(|directory| directory.starts_with('/'))
            .map(|directory| format!("{directory}/{program}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandyard_protocol::ProcessId;

    use super::*;

    fn command(argv: &[&str]) -> Command {
        Command {
            id: ProcessId::main(),
            argv: argv.iter().map(ToString::to_string).collect(),
            cwd: "/workspace".into(),
            env: [("PATH".to_owned(), "/a:relative::/b".to_owned())].into(),
            terminal: None,
            stdin: false,
        }
    }

    fn refused(command: &Command) -> (String, i32) {
        let refusal = ExecPlan::new(command, false).unwrap_err();
        (refusal.what, refusal.errno)
    }

    #[test]
    fn programs_are_looked_for_in_absolute_directories_only() {
        let found = |program: &str| ExecPlan::new(&command(&[program]), false).unwrap().candidates;
        assert_eq!(found("tool"), [c"/a/tool".to_owned(), c"/b/tool".to_owned()]);
        assert_eq!(found("./tool"), [c"./tool".to_owned()]);
        assert!(ExecPlan::new(&command(&["tool"]), true).unwrap().candidates.is_empty());
    }

    #[test]
    fn what_exec_could_not_carry_is_refused() {
        assert_eq!(refused(&command(&[])), ("no program".into(), libc::EINVAL));
        assert_eq!(refused(&command(&["a\0b"])), ("a string holds a NUL byte".into(), libc::EINVAL));
        let long = "x".repeat(ARGUMENT_BYTES);
        assert_eq!(refused(&command(&["tool", &long])).1, libc::E2BIG);
        let relative = Command { cwd: "../..".into(), ..command(&["tool"]) };
        assert_eq!(refused(&relative).1, libc::EINVAL);
    }

    proptest! {
        #[test]
        fn any_strings_are_planned_or_refused(argv in prop::collection::vec(any::<String>(), 0..5), path: String) {
            let mut command = command(&argv.iter().map(String::as_str).collect::<Vec<_>>());
            command.env.insert("PATH".into(), path);
            if let Ok(plan) = ExecPlan::new(&command, false) {
                prop_assert_eq!(plan.argv.len(), argv.len());
            }
        }
    }
}
