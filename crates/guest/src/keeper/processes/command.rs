//! Turns a request into a command: bounds, working directory, environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandyard_protocol::limits::ARGUMENT_BYTES;
use sandyard_protocol::{GuestError, GuestErrorCode, ProcessId, StartProcess};

use crate::keeper::environment::ProcessEnvironment;
use crate::process_host::Command;

/// `TERM` of a process with a terminal, unless the caller sets it. Every common terminal emulator understands xterm's sequences.
const TERMINAL_KIND: &str = "xterm-256color";

/// Turns requests into commands.
#[derive(Debug)]
pub(super) struct CommandBuilder {
    pub(super) environment: Arc<ProcessEnvironment>,
    pub(super) workspace: PathBuf,
}

impl CommandBuilder {
    /// The command for a caller's process.
    pub(super) fn for_caller(&self, id: ProcessId, start: &StartProcess) -> Result<Command, GuestError> {
        check_arguments(&start.argv)?;
        check_environment(&start.env)?;
        let mut env = self.environment.whole();
        if start.terminal.is_some() {
            env.insert("TERM".into(), TERMINAL_KIND.into());
        }
        // The caller's variables come last and win over the machine's and the terminal's.
        env.extend(start.env.clone());
        // Counted with the machine's own variables: the kernel's limit is on all strings together.
        check_size(&start.argv, &env)?;
        Ok(Command {
            id,
            argv: start.argv.clone(),
            cwd: working_directory(&self.workspace, start.cwd.as_deref())?,
            env,
            terminal: start.terminal,
            stdin: start.stdin && start.terminal.is_none(),
        })
    }

    /// The command for the job itself.
    pub(super) fn for_job(&self, argv: Vec<String>) -> Result<Command, GuestError> {
        let env = self.environment.whole();
        check_size(&argv, &env)?;
        let cwd = working_directory(&self.workspace, None)?;
        Ok(Command { id: ProcessId::main(), argv, cwd, env, terminal: None, stdin: false })
    }
}

/// Rejects names and values that execve(2) can't take.
pub(in crate::keeper) fn check_environment(env: &BTreeMap<String, String>) -> Result<(), GuestError> {
    let bad_name = |name: &str| name.is_empty() || name.contains(['=', '\0']);
    match env.iter().find(|(name, value)| bad_name(name) || value.contains('\0')) {
        Some((name, _)) => Err(bad(format!("the environment variable {name:?} can't be set"))),
        None => Ok(()),
    }
}

fn check_arguments(argv: &[String]) -> Result<(), GuestError> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(bad("there is no program to start"));
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(bad("an argument contains a NUL byte"));
    }
    Ok(())
}

fn check_size(argv: &[String], env: &BTreeMap<String, String>) -> Result<(), GuestError> {
    let arguments: usize = argv.iter().map(|argument| argument.len() + 1).sum();
    let variables: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if arguments + variables > ARGUMENT_BYTES {
        return Err(GuestError::new(GuestErrorCode::LimitReached, "arguments and environment are too long"));
    }
    Ok(())
}

/// Returns an absolute directory. The spawner resolves it inside the machine with the job's own rights.
fn working_directory(workspace: &Path, cwd: Option<&str>) -> Result<String, GuestError> {
    let cwd = cwd.unwrap_or("");
    if cwd.contains('\0') {
        return Err(bad("the working directory contains a NUL byte"));
    }
    Ok(workspace.join(cwd).to_string_lossy().into_owned())
}

fn bad(message: impl Into<String>) -> GuestError {
    GuestError::new(GuestErrorCode::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_execve_can_not_take_is_refused() {
        for argv in [vec![], vec![""], vec!["a\0b"], vec!["a", "\0"]] {
            let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
            assert!(check_arguments(&argv).is_err(), "{argv:?}");
        }
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0")] {
            let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            assert!(check_environment(&env).is_err(), "{env:?}");
        }
        let long = vec!["x".repeat(ARGUMENT_BYTES)];
        assert!(check_size(&long, &BTreeMap::new()).is_err());
    }

    #[test]
    fn a_working_directory_is_absolute() {
        let workspace = Path::new("/workspace");
        assert_eq!(working_directory(workspace, None).unwrap(), "/workspace/");
        assert_eq!(working_directory(workspace, Some("a/b")).unwrap(), "/workspace/a/b");
        assert_eq!(working_directory(workspace, Some("/tmp")).unwrap(), "/tmp");
    }
}
