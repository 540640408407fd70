//! Every exit code of `sandyard`, in one place. Scripts rely on them: never give a number a new meaning.
//!
//! Two exceptions: `sandyard shell JOB COMMAND` exits with the command's own code, and `sandyard run` with that of a job whose
//! process ran to its end.

use std::process::ExitCode;

use sandyard_api::{FailureCode, JobState, JobView};

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandExit {
    /// 0: done; for `run`, the job succeeded.
    Success,
    /// 1: the job failed, or something went wrong that has no code of its own.
    Failed,
    /// 2: the command line or the configuration is wrong.
    Usage,
    /// 3: no server answers.
    Unreachable,
    /// 4: the server rejected the request.
    Refused,
    /// 5: the job was ended by a time limit.
    TimedOut,
    /// 6: the job was cancelled.
    Cancelled,
    /// 7: `doctor` found that no sandbox can start here.
    NotUsable,
    /// 8: the connection was lost; the job continues.
    Lost,
    /// 9: a task asked a question, and nobody was to be asked.
    Question,
    /// 130: interrupted by Ctrl-C; the job was left running.
    Interrupted,
    /// 141: the reader of the output is gone, as for any program in a pipe.
    BrokenPipe,
    /// The exit code of a command in the sandbox.
    Command(u8),
}

impl CommandExit {
    /// Returns the code as a number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Refused => 4,
            Self::TimedOut => 5,
            Self::Cancelled => 6,
            Self::NotUsable => 7,
            Self::Lost => 8,
            Self::Question => 9,
            Self::Interrupted => 130,
            Self::BrokenPipe => 141,
            Self::Command(code) => code,
        }
    }

    /// Returns the exit code of `run` for an ended job: that of its process, if it ran to its own end and the code is free for
    /// programs; else that of its state.
    pub(crate) fn of_job(view: &JobView) -> Self {
        let own_end = view.error.as_ref().is_some_and(|error| error.code == FailureCode::NonzeroExit);
        let code = view.exit_code.filter(|_| own_end).and_then(|code| u8::try_from(code).ok());
        // Shells use the codes above 125 for commands that could not run or that a signal ended.
        code.filter(|code| (1..=125).contains(code)).map_or_else(|| Self::of_state(view.state), Self::Command)
    }

    /// Returns the exit code of `run` for the final state of a job; a job that has not ended counts as lost.
    fn of_state(state: JobState) -> Self {
        match state {
            JobState::Succeeded => Self::Success,
            JobState::Failed => Self::Failed,
            JobState::TimedOut => Self::TimedOut,
            JobState::Cancelled => Self::Cancelled,
            _ => Self::Lost,
        }
    }

    /// Returns the exit code of a command in a sandbox, cut to eight bits as the system does.
    pub(crate) fn of_command(code: i32) -> Self {
        Self::Command(u8::try_from(code).unwrap_or(Self::Failed.code()))
    }
}

impl From<CommandExit> for ExitCode {
    fn from(exit: CommandExit) -> Self {
        Self::from(exit.code())
    }
}

/// Printed at the end of the long help.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done; for `run`, the job succeeded
  1    the job failed, or anything without a code of its own
  2    the command line or the configuration is wrong
  3    no server answers
  4    the server refused what was asked
  5    the job was ended by a time limit
  6    the job was cancelled
  7    `doctor`: no sandbox can start here
  8    the connection was lost; the job goes on
  9    a task asked a question (`run --on-question fail`)
  130  interrupted; the job was left running
`run` exits with the job's own code, 1 to 125, if its process ran to its end;
every other failure is in the list. `shell JOB COMMAND` exits with the command's
own code.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_is_zero() {
        for state in JobState::ALL {
            assert_eq!(CommandExit::of_state(state).code() == 0, state == JobState::Succeeded, "{state:?}");
        }
    }

    #[test]
    fn a_command_code_out_of_range_is_still_a_failure() {
        assert_eq!(CommandExit::of_command(0).code(), 0);
        assert_eq!(CommandExit::of_command(137).code(), 137);
        assert_eq!(CommandExit::of_command(256).code(), 1);
        assert_eq!(CommandExit::of_command(-1).code(), 1);
    }

    #[test]
    fn the_help_lists_every_number() {
        for exit in [
            CommandExit::Success,
            CommandExit::Usage,
            CommandExit::Unreachable,
            CommandExit::Refused,
            CommandExit::TimedOut,
            CommandExit::Cancelled,
        ] {
            assert!(HELP.contains(&format!("\n  {} ", exit.code())), "{exit:?}");
        }
    }
}
