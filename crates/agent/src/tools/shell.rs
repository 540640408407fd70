//! `shell`: runs a command and waits for it. A command that takes longer continues in the background, where later calls can read its
//! output, wait for it and stop it.

use std::time::Duration;

use sandyard_pipe::Frame;
use sandyard_protocol::{
    EndReason, Exit, OutputChunk, OutputOffsets, ProcessEvent, ProcessId, ProcessInfo, ProcessInput, Reply,
    Request, StartProcess, TextOrigin,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::lanes::CallLane;
use super::output::GatheredOutput;
use super::{Tool, ToolContext, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm};
use crate::keeper::{KeeperClient, KeeperStream, ToolError};

/// Begins the argument of a process that names the step which started it. A later loop finds the process by it.
const STEP_TAG: &str = "SANDYARD_STEP";
/// How long a call waits for its command by default.
const DEFAULT_WAIT_S: u64 = 120;
/// The longest wait of one call.
const MAX_WAIT_S: u64 = 1800;
/// Time between SIGTERM and SIGKILL, and then for the end.
const STOP_GRACE: Duration = Duration::from_secs(5);

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Runs a bash command in /workspace and returns its output and exit code. Each call is a fresh shell: `cd` and variables do not carry over to the next call, files and running programs do.
A command that is not done after `wait_s` seconds goes on in the background; you get its process id and the output so far. So start servers and watchers plainly, with a small `wait_s` and without `&` or `nohup`. With `process` instead of `command` you see what is new, wait for the end, or `stop` it.
There is no terminal: pass flags such as `--yes` so that nothing waits for a key.",
    parameters,
    lane: |_| CallLane::RunsCommands,
    run: ToolRun::Machine {
        run: |context, arguments| Box::pin(run(context, arguments)),
        after_restart: |context| Box::pin(async move { after_restart(&context).await }),
    },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "shell",
    members: &[
        ("command", &["cmd", "script", "code"]),
        ("cwd", &["workdir", "working_directory", "directory"]),
        ("wait_s", &["timeout", "timeout_s", "wait"]),
        ("input", &["stdin"]),
        ("process", &["process_id", "pid"]),
        ("stop", &["kill"]),
    ],
    example: r#"{"command": "npm test", "wait_s": 300}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": { "type": "string", "description": "What bash runs; several lines are fine." },
            "cwd": { "type": "string", "description": "Where, relative to /workspace or absolute." },
            "wait_s": { "type": "integer", "minimum": 0, "maximum": MAX_WAIT_S, "description": "Seconds to wait for the end; 120 if not given." },
            "input": { "type": "string", "description": "Standard input of the command; empty if not given." },
            "process": { "type": "string", "description": "Instead of `command`: the id of one that goes on." },
            "stop": { "type": "boolean", "description": "With `process`: end it." },
        },
    })
}

#[derive(Debug, Deserialize)]
struct ShellArguments {
    command: Option<String>,
    cwd: Option<String>,
    wait_s: Option<u64>,
    input: Option<String>,
    process: Option<String>,
    #[serde(default)]
    stop: bool,
}

async fn run(context: ToolContext, text: String) -> ToolOutcome {
    let arguments: ShellArguments = match arguments::read(&FORM, &text) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let wait = Duration::from_secs(arguments.wait_s.unwrap_or(DEFAULT_WAIT_S).min(MAX_WAIT_S));
    let outcome = match (&arguments.command, &arguments.process) {
        (Some(command), None) if !command.trim().is_empty() => {
            start(&context, command, &arguments, wait).await
        }
        (None, Some(process)) => look(&context, ProcessId(process.clone()), arguments.stop, wait).await,
        _ => return FORM.refuse("give either a `command` or a `process`").into(),
    };
    outcome.unwrap_or_else(ToolOutcome::from)
}

async fn start(
    context: &ToolContext,
    command: &str,
    arguments: &ShellArguments,
    wait: Duration,
) -> Result<ToolOutcome, ToolError> {
    let tag = format!("{STEP_TAG}={}", context.step);
    let start = StartProcess {
        // A shell that is not interactive reads no rc file, so the option only carries the tag. `env` would carry it too, at the
        // price of another program to load for each command.
        argv: ["bash", "--rcfile", &tag, "-c", command].map(str::to_owned).to_vec(),
        cwd: arguments.cwd.clone(),
        stdin: arguments.input.is_some(),
        ..StartProcess::default()
    };
    let deadline = Instant::now() + wait;
    let (info, mut stream) = match attached(context.keeper.ask(Request::StartProcess(start)).await) {
        // Keeper may have started the command before the connection was lost: starting it again would run it twice.
        Err(ToolError::Lost) => match of_step(&context.keeper, context.step).await? {
            Some(info) => attach(&context.keeper, &info.id, OutputOffsets::default()).await?,
            None => return Err(ToolError::Lost),
        },
        other => other?,
    };
    if let Some(input) = &arguments.input {
        // A command that does not read its input is not a failure.
        let _ = send_input(&mut stream, input).await;
    }
    let mut following = FollowedProcess::new(info.id, OutputOffsets::default());
    let exit = following.until(&context.keeper, stream, deadline).await?;
    Ok(following.outcome(context, exit))
}

async fn send_input(stream: &mut KeeperStream, input: &str) -> Result<(), ToolError> {
    for part in input.as_bytes().chunks(sandyard_protocol::limits::DATA_BYTES) {
        stream.send_data(part).await?;
    }
    Ok(stream.send_message(&ProcessInput::Close).await?)
}

async fn look(
    context: &ToolContext,
    process: ProcessId,
    stop: bool,
    wait: Duration,
) -> Result<ToolOutcome, ToolError> {
    let from = context.positions.take(&process);
    let (_, stream) = attach(&context.keeper, &process, from).await?;
    let mut following = FollowedProcess::new(process.clone(), from);
    if !stop {
        let exit = following.until(&context.keeper, stream, Instant::now() + wait).await?;
        return Ok(following.outcome(context, exit));
    }
    // SIGTERM first, so that a server can close its files.
    signal(&context.keeper, &process, 15).await?;
    let mut exit = following.until(&context.keeper, stream, Instant::now() + STOP_GRACE).await?;
    if exit.is_none() {
        signal(&context.keeper, &process, 9).await?;
        let (_, stream) = attach(&context.keeper, &process, following.position).await?;
        exit = following.until(&context.keeper, stream, Instant::now() + STOP_GRACE).await?;
    }
    Ok(ToolOutcome { failed: false, ..following.outcome(context, exit) })
}

async fn signal(keeper: &KeeperClient, process: &ProcessId, signal: i32) -> Result<(), ToolError> {
    keeper.ask(Request::SignalProcess { process: process.clone(), signal }).await.map(drop)
}

async fn attach(
    keeper: &KeeperClient,
    process: &ProcessId,
    from: OutputOffsets,
) -> Result<(ProcessInfo, KeeperStream), ToolError> {
    attached(keeper.ask(Request::AttachProcess { process: process.clone(), from }).await)
}

fn attached(
    answer: Result<(Reply, KeeperStream), ToolError>,
) -> Result<(ProcessInfo, KeeperStream), ToolError> {
    match answer? {
        (Reply::Process(info), stream) => Ok((info, stream)),
        _ => Err(ToolError::Unexpected),
    }
}

/// Finds the process that a step started.
async fn of_step(keeper: &KeeperClient, step: u64) -> Result<Option<ProcessInfo>, ToolError> {
    let tag = format!("{STEP_TAG}={step}");
    match keeper.ask(Request::ListProcesses).await? {
        (Reply::Processes(list), _) => Ok(list.into_iter().find(|info| info.argv.get(2) == Some(&tag))),
        _ => Err(ToolError::Unexpected),
    }
}

/// Describes the command of a step that was cut off. The command itself is left alone.
async fn after_restart(context: &ToolContext) -> String {
    let found = match of_step(&context.keeper, context.step).await {
        Ok(Some(info)) => info,
        Ok(None) => {
            return "No command of this step is known to the machine: it probably never began.".into();
        }
        Err(_) => return "The machine could not tell whether the command ran.".into(),
    };
    let mut following = FollowedProcess::new(found.id.clone(), OutputOffsets::default());
    let deadline = Instant::now() + Duration::from_millis(500);
    let state = match attach(&context.keeper, &found.id, OutputOffsets::default()).await {
        Ok((_, stream)) => following.until(&context.keeper, stream, deadline).await,
        Err(error) => Err(error),
    };
    let output = following.output.text();
    let output = if output.trim().is_empty() { "(no output)".to_owned() } else { output };
    match state {
        Ok(Some(exit)) => {
            format!("Since then the command has ended by itself: {}.\n{output}", describe(exit))
        }
        Ok(None) => {
            context.positions.set(found.id.clone(), following.position);
            format!("The command still runs, as process {}. Its output so far:\n{output}", found.id)
        }
        Err(_) => format!("The command ran as process {}.", found.id),
    }
}

/// A process whose output is being read.
struct FollowedProcess {
    process: ProcessId,
    position: OutputOffsets,
    output: GatheredOutput,
}

impl FollowedProcess {
    fn new(process: ProcessId, position: OutputOffsets) -> Self {
        Self { process, position, output: GatheredOutput::default() }
    }

    /// Gathers output until the process ends or the deadline passes. When keeper is restarted, it attaches again at its position.
    async fn until(
        &mut self,
        keeper: &KeeperClient,
        stream: KeeperStream,
        deadline: Instant,
    ) -> Result<Option<Exit>, ToolError> {
        let mut stream = stream;
        loop {
            match tokio::time::timeout_at(deadline, self.read(&mut stream)).await {
                Ok(Ok(exit)) => return Ok(Some(exit)),
                Ok(Err(ToolError::Lost)) => stream = attach(keeper, &self.process, self.position).await?.1,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Ok(None),
            }
        }
    }

    async fn read(&mut self, stream: &mut KeeperStream) -> Result<Exit, ToolError> {
        loop {
            match stream.receive().await?.ok_or(ToolError::Lost)? {
                Frame::Data(frame) => {
                    let chunk = OutputChunk::decode(frame).ok_or(ToolError::Unexpected)?;
                    // The position moves with each chunk, so that a new attachment after a lost connection repeats and skips nothing.
                    self.position.set(chunk.stream, chunk.offset + chunk.bytes.len() as u64);
                    self.output.push(&chunk.bytes);
                }
                Frame::Message(message) => match serde_json::from_slice(&message) {
                    Ok(ProcessEvent::Lost { bytes }) => self.output.lost(bytes),
                    Ok(ProcessEvent::Exited(exit)) => return Ok(exit),
                    Err(_) => return Err(ToolError::Unexpected),
                },
            }
        }
    }

    fn outcome(self, context: &ToolContext, exit: Option<Exit>) -> ToolOutcome {
        let whole = self.output.whole();
        self.shown(context, exit).keeping(TextOrigin::Result, FORM.tool, whole)
    }

    fn shown(self, context: &ToolContext, exit: Option<Exit>) -> ToolOutcome {
        let output = self.output.text();
        let output = if output.trim().is_empty() { "(no output)" } else { output.trim_end() };
        match exit {
            Some(exit) => ToolOutcome {
                failed: exit.code != 0,
                ..ToolOutcome::text(format!("{}\n{output}", describe(exit)))
            },
            None => {
                let text = format!(
                    "Still running, as process {id}. To see more or wait: shell with {{\"process\": \"{id}\"}}; to end it, add \"stop\": true.\n{output}",
                    id = self.process
                );
                context.positions.set(self.process, self.position);
                ToolOutcome::text(text)
            }
        }
    }
}

fn describe(exit: Exit) -> String {
    match (exit.reason, exit.signal) {
        (EndReason::Own, None) => format!("exit code {}", exit.code),
        (EndReason::Own, Some(9)) => {
            "killed by signal 9; if you did not do that, it probably used too much memory".into()
        }
        (EndReason::Own, Some(signal)) => format!("ended by signal {signal}"),
        (_, _) => format!("stopped, exit code {}", exit.code),
    }
}
