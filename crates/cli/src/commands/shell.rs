//! `sandyard shell`: a terminal in a live sandbox, or one command there.

use std::io::{self, Read, Write};

use clap::Args;
use sandyard_api::{ProcessSignal, ShellEvent, ShellRequest};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::run_arguments::quote;
use super::shell_input::ShellInput;
use crate::client::{ApiClient, ClientError, CommandUpdate, FollowCommand, TerminalEvent};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::{self, JobOutput, TerminalText, output_bytes};
use crate::terminal::{self, RawMode};

/// Keys that are read ahead of the network; beyond that the keyboard waits.
const KEYS_AHEAD: usize = 64;
/// Said once for each lost connection.
const LOST: &str = "· the connection to the server is lost; reconnecting (Ctrl-C leaves)";

const EXAMPLES: &str = "\
Examples:
  sandyard shell abcd1234                 a terminal
  sandyard shell abcd1234 ls -l           one command; its options are its own
  sandyard shell abcd1234 'ls | wc -l'    one word is a line for the shell
  sandyard shell -t abcd1234 htop         a command that needs a terminal
  tar c . | sandyard shell -i abcd1234 tar x";

/// Open a terminal in a live sandbox, or run one command there
///
/// Exits with the code of the shell or of the command. The terminal shows everything that programs in the sandbox send to it,
/// escape sequences included; the output of one command is cleaned. Both go on while the server is restarted: this command
/// connects again for up to a minute. Ctrl-C interrupts the command; a second one leaves it. Options come before the
/// command.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShellCommand {
    /// Send standard input to the command
    #[arg(long, short = 'i', requires = "command")]
    stdin: bool,
    /// Run the command on a terminal
    #[arg(long, short = 't', requires = "command", conflicts_with_all = ["stdin", "timeout", "detach", "raw"])]
    terminal: bool,
    /// End the command after this many seconds
    #[arg(long, value_name = "SECONDS", requires = "command")]
    timeout: Option<u64>,
    /// Print the id of the command's process and leave it running
    #[arg(long, requires = "command", conflicts_with = "raw")]
    detach: bool,
    /// Print output as it is, escape sequences included, also on a terminal
    #[arg(long, requires = "command")]
    raw: bool,
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// A command instead of a terminal
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl ShellCommand {
    /// The words of the command.
    #[cfg(test)]
    pub(super) fn words(&self) -> Vec<String> {
        self.command.clone()
    }

    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        if self.command.is_empty() {
            return interact(context, &client, &id).await;
        }
        if self.terminal {
            return open_terminal(context, &client, &id, Some(&shell_line(&self.command))).await;
        }
        let input = match self.stdin {
            true => ShellInput::read(&context.ui, &client, &id).await?,
            false => ShellInput::Nothing,
        };
        let result = self.execute(context, &client, &id, &input).await;
        if result.is_err() {
            // The error tells more than one of this would: the job may be gone.
            drop(input.discard(&client, &id).await);
        }
        result
    }

    async fn execute(
        &self,
        context: &CommandContext,
        client: &ApiClient,
        id: &str,
        input: &ShellInput,
    ) -> Result<CommandExit, CommandError> {
        let (command, stdin) = input.feeds(shell_line(&self.command));
        let request = ShellRequest {
            command,
            timeout_s: self.timeout,
            stdin,
            detach: self.detach,
            ..ShellRequest::default()
        };
        if self.detach {
            context.ui.line(&client.start(id, &request).await?.process)?;
            return Ok(CommandExit::Success);
        }
        let output = JobOutput::new(TerminalText::from_flag(self.raw));
        follow(context, client, id, request, output).await
    }
}

/// Runs a command and shows its output until it ends.
async fn follow(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    request: ShellRequest,
    mut output: JobOutput,
) -> Result<CommandExit, CommandError> {
    let key = sandyard_server::job::random_id().map_err(io::Error::other)?.to_string();
    let mut command = FollowCommand::new(client.clone(), id, request, key);
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut interrupted = false;
    loop {
        // Cancelling `next` loses no output, and a signal that arrives meanwhile stays pending.
        let update = tokio::select! {
            update = command.next() => update?,
            _ = interrupts.recv() => {
                let Some(process) = command.process().filter(|_| !interrupted) else {
                    return Ok(CommandExit::Interrupted);
                };
                interrupted = true;
                if client.signal(id, process, ProcessSignal::INTERRUPT).await.is_err() {
                    return Ok(CommandExit::Interrupted);
                }
                continue;
            }
        };
        let event = match update {
            CommandUpdate::Event(event) => event,
            CommandUpdate::Lost => {
                context.ui.faint(LOST);
                continue;
            }
            CommandUpdate::Back => continue,
        };
        match event {
            ShellEvent::Stdout(text) => output.stdout(&output_bytes(&text))?,
            ShellEvent::Stderr(text) => output.stderr(&output_bytes(&text))?,
            ShellEvent::Started { .. } => {}
            ShellEvent::Truncated { dropped_bytes } => {
                context.ui.warn(&format!(
                    "{dropped_bytes} bytes of output were dropped: they arrived faster than they were read"
                ));
            }
            ShellEvent::Exit { exit_code, timed_out } => {
                if timed_out {
                    context.ui.warn("the command was ended by its time limit");
                }
                return Ok(CommandExit::of_command(exit_code));
            }
            ShellEvent::Error { code, message } => {
                return Err(ClientError::Refused { status: 502, code, message, hint: None }.into());
            }
        }
    }
}

/// Opens an interactive shell.
pub(super) async fn interact(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
) -> Result<CommandExit, CommandError> {
    open_terminal(context, client, id, None).await
}

/// Shows a terminal of the sandbox: a shell, or one command.
async fn open_terminal(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    command: Option<&str>,
) -> Result<CommandExit, CommandError> {
    if !terminal::is_terminal() {
        return Err(CommandError::usage_with_hint(
            "an interactive shell needs a terminal",
            "give a command: `sandyard shell JOB COMMAND`",
        ));
    }
    let mut shell = client.terminal(id, terminal::size(), command).await?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut keys = keyboard();
    let mut raw = Some(RawMode::enter()?);
    loop {
        // `next` ends when the shell does and must not wait for keys. `keys` may close earlier (end of standard input), which
        // disables its branch; the shell is still followed. Dropping a branch loses nothing: keys stay in the channel, and the
        // socket keeps unread output.
        tokio::select! {
            event = shell.next() => match event? {
                Some(TerminalEvent::Output(bytes)) => show(&bytes)?,
                Some(TerminalEvent::Lost) => {
                    // Not raw while there is no shell: Ctrl-C leaves.
                    raw = None;
                    context.ui.faint(&format!("\n{LOST}"));
                }
                Some(TerminalEvent::Back) => raw = Some(RawMode::enter()?),
                Some(TerminalEvent::Exit(code)) => return Ok(CommandExit::of_command(code)),
                None => return Err(ClientError::Stream("the terminal was closed without an exit code").into()),
            },
            Some(bytes) = keys.recv() => if raw.is_some() { shell.send(bytes).await },
            _ = resized.recv() => shell.resize(terminal::size()).await?,
        }
    }
}

fn show(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Reads keys on a thread of its own, because a read from a terminal can't be cancelled. The thread ends with the process.
fn keyboard() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(KEYS_AHEAD);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = io::stdin().lock().read(&mut buffer) {
            if sender.blocking_send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Returns the command line: one word is passed to the shell as it is; several words are quoted so that they arrive unchanged.
fn shell_line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_arrive_as_they_were_given() {
        let line =
            |words: &[&str]| shell_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["ls | wc -l"]), "ls | wc -l");
        assert_eq!(line(&["echo", "a b", "it's", "$HOME", ""]), r"echo 'a b' 'it'\''s' '$HOME' ''");
        assert_eq!(line(&["ls", "-l", "/tmp/x.y"]), "ls -l /tmp/x.y");
    }
}
