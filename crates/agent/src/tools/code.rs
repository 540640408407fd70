//! `code`: runs code in a kernel that keeps its state.

use base64::Engine as _;
use sandyard_pipe::Frame;
use sandyard_protocol::limits::{OUTPUT_BYTES, OUTPUT_PARTS};
use sandyard_protocol::{
    Execute, ExecutionEnd, ExecutionId, KernelEvent, KernelId, Language, ModelPart, Outcome as Ending,
    OutputPart, Reply, Request, TextOrigin,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::lanes::CallLane;
use super::output::GatheredOutput;
use super::{Tool, ToolContext, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm};
use crate::keeper::{KeeperClient, KeeperStream, ToolError};

const DEFAULT_WAIT_S: u64 = 120;
const MAX_WAIT_S: u64 = 3600;
/// Pictures in one result.
const MAX_PICTURES: usize = 4;
/// The largest picture in a result, in base64.
pub(super) const PICTURE_BYTES: usize = 1536 * 1024;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Runs code in a Jupyter kernel and returns what it prints, the value of its last expression, and its plots as pictures. Variables, imports and functions stay for the next call in the same language. The calls also become cells of a notebook in /workspace.
Use it to explore data, to compute, and to try something out step by step. Use `shell` for programs of the project.
Code that is not done after `wait_s` seconds is interrupted; the kernel and its variables stay.",
    parameters,
    lane,
    run: ToolRun::Machine {
        run: |context, arguments| Box::pin(run(context, arguments)),
        after_restart: |context| Box::pin(async move { after_restart(&context).await }),
    },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "code",
    members: &[
        ("language", &["lang"]),
        ("code", &["source", "script"]),
        ("kernel", &[]),
        ("wait_s", &["timeout", "timeout_s"]),
    ],
    example: r#"{"language": "python", "code": "1 + 1"}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "language": { "type": "string", "enum": languages() },
            "code": { "type": "string" },
            "kernel": { "type": "string", "description": "A kernel by its id, if not the language's first." },
            "wait_s": { "type": "integer", "minimum": 1, "maximum": MAX_WAIT_S, "description": "Seconds after which it is interrupted; 120 if not given." },
        },
        "required": ["language", "code"],
    })
}

/// Names of the languages that the model is offered. JavaScript is left out: it is valid TypeScript, and two kernels would not
/// share variables.
fn languages() -> Vec<&'static str> {
    let offered = |language: &Language| *language != Language::Javascript;
    Language::ALL.into_iter().filter(offered).map(Language::as_str).collect()
}

#[derive(Debug, Deserialize)]
struct CodeArguments {
    language: Language,
    code: String,
    kernel: Option<String>,
    wait_s: Option<u64>,
}

/// One kernel runs one piece of code after another. A kernel that is not named is the first of its language.
fn lane(text: &str) -> CallLane {
    let kernel = arguments::read(&FORM, text)
        .map(|CodeArguments { language, kernel, .. }| kernel.unwrap_or_else(|| language.as_str().to_owned()));
    CallLane::Kernel(kernel.unwrap_or_default())
}

async fn run(context: ToolContext, text: String) -> ToolOutcome {
    let arguments: CodeArguments = match arguments::read(&FORM, &text) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let wait_s = arguments.wait_s.unwrap_or(DEFAULT_WAIT_S).clamp(1, MAX_WAIT_S);
    let execute = Execute {
        language: arguments.language,
        kernel: arguments.kernel.map(KernelId),
        code: arguments.code,
        timeout_ms: Some(wait_s * 1000),
        idle_timeout_ms: None,
        // The execution goes on when the connection is lost, as at a restart of keeper, and `follow` attaches to it again.
        interrupt_on_loss: false,
        key: None,
    };
    follow(&context.keeper, execute, wait_s).await.unwrap_or_else(ToolOutcome::from)
}

/// Reads the events of an execution. After a lost connection it attaches again and reads from the start.
async fn follow(keeper: &KeeperClient, execute: Execute, wait_s: u64) -> Result<ToolOutcome, ToolError> {
    let (execution, mut stream) = begun(keeper.ask(Request::Execute(execute)).await)?;
    loop {
        // From the start each time: an attachment repeats all output, which would be doubled otherwise.
        let mut gathering = ExecutionOutput::default();
        match gathering.read(&mut stream).await {
            Ok(end) => return Ok(gathering.outcome(&end, wait_s)),
            Err(ToolError::Lost) => {
                let attach = Request::AttachExecution { execution: execution.clone() };
                stream = begun(keeper.ask(attach).await)?.1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn begun(answer: Result<(Reply, KeeperStream), ToolError>) -> Result<(ExecutionId, KeeperStream), ToolError> {
    match answer? {
        (Reply::Execution(info), stream) => Ok((info.id, stream)),
        _ => Err(ToolError::Unexpected),
    }
}

/// Output of an execution.
#[derive(Default)]
struct ExecutionOutput {
    text: GatheredOutput,
    pictures: Vec<String>,
    has_error: bool,
}

impl ExecutionOutput {
    async fn read(&mut self, stream: &mut KeeperStream) -> Result<ExecutionEnd, ToolError> {
        loop {
            let message = match stream.receive().await?.ok_or(ToolError::Lost)? {
                Frame::Message(message) => message,
                Frame::Data(_) => return Err(ToolError::Unexpected),
            };
            match serde_json::from_slice(&message).map_err(|_| ToolError::Unexpected)? {
                KernelEvent::Text { text, .. } => self.text.push(text.as_bytes()),
                KernelEvent::Output { parts, .. } => self.take_output(stream, parts).await?,
                KernelEvent::Error(error) => {
                    self.has_error = true;
                    let traceback = error.traceback.join("\n");
                    let text = if traceback.is_empty() {
                        format!("{}: {}", error.name, error.value)
                    } else {
                        traceback
                    };
                    self.line(&text);
                }
                KernelEvent::Clear => self.text = GatheredOutput::default(),
                KernelEvent::Note { text } => self.line(&text),
                KernelEvent::Truncated { bytes } => self.text.lost(bytes),
                KernelEvent::Done(end) => return Ok(end),
            }
        }
    }

    fn line(&mut self, text: &str) {
        self.text.push(text.as_bytes());
        self.text.push(b"\n");
    }

    /// Takes the most useful MIME type of an output: a picture, or text.
    async fn take_output(
        &mut self,
        stream: &mut KeeperStream,
        parts: Vec<OutputPart>,
    ) -> Result<(), ToolError> {
        let total = parts.iter().fold(0_u64, |total, part| total.saturating_add(part.bytes));
        // The sizes are checked before any byte is taken: the kernel's output is not trusted.
        if parts.len() > OUTPUT_PARTS || total > OUTPUT_BYTES as u64 {
            return Err(ToolError::Unexpected);
        }
        let (mut picture, mut text) = (None, None);
        for part in parts {
            let bytes = take(stream, part.bytes).await?;
            let value = serde_json::from_slice::<Value>(&bytes).ok();
            match (part.mime.as_str(), value) {
                ("image/png", Some(Value::String(base64))) => picture = Some(base64.replace('\n', "")),
                ("text/plain", Some(Value::String(plain))) => text = Some(plain),
                _ => {}
            }
        }
        match picture.filter(|picture| fits(picture) && self.pictures.len() < MAX_PICTURES) {
            Some(picture) => self.pictures.push(picture),
            None => self.line(&text.unwrap_or_else(|| "(an output that can't be shown as text)".into())),
        }
        Ok(())
    }

    fn outcome(self, end: &ExecutionEnd, wait_s: u64) -> ToolOutcome {
        let said = self.text.text();
        let said =
            if said.trim().is_empty() && self.pictures.is_empty() { "(no output)" } else { said.trim_end() };
        let (words, failed) = match end.outcome {
            Ending::Ok => (None, self.has_error),
            Ending::Error => (None, true),
            Ending::TimedOut | Ending::IdleTimedOut => {
                (Some(format!("Interrupted after {wait_s} seconds; variables are kept.")), true)
            }
            Ending::Interrupted => (Some("Somebody interrupted it; variables are kept.".into()), true),
            Ending::Died => (Some("The kernel died, probably for lack of memory; its variables are gone. The next call starts a fresh one.".into()), true),
            Ending::Aborted => (Some("The kernel was restarted before this ran.".into()), true),
            Ending::Lost => (Some("Nobody knows how this ended; look at the variables before you go on.".into()), true),
        };
        let text = words.map_or_else(|| said.to_owned(), |words| format!("{said}\n{words}"));
        let mut parts = vec![ModelPart::Text { text }];
        parts.extend(self.pictures.into_iter().map(|base64| ModelPart::Png { base64 }));
        let interrupted = end.outcome == Ending::Lost;
        let outcome = ToolOutcome { parts, failed, interrupted, ..ToolOutcome::default() };
        outcome.keeping(TextOrigin::Cell, FORM.tool, self.text.whole())
    }
}

/// True for a PNG picture that is small enough for a result.
fn fits(base64: &str) -> bool {
    let start = base64.get(..12).and_then(|start| base64::prelude::BASE64_STANDARD.decode(start).ok());
    base64.len() <= PICTURE_BYTES && start.is_some_and(|start| start.starts_with(b"\x89PNG\r\n\x1a\n"))
}

/// Receives exactly `length` bytes in data frames.
pub(super) async fn take(stream: &mut KeeperStream, length: u64) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        match stream.receive().await?.ok_or(ToolError::Lost)? {
            Frame::Data(data) => bytes.extend_from_slice(&data),
            Frame::Message(_) => return Err(ToolError::Unexpected),
        }
    }
    Ok(bytes)
}

/// Describes the kernels after a step was cut off.
async fn after_restart(context: &ToolContext) -> String {
    match context.keeper.ask(Request::ListKernels).await {
        Ok((Reply::Kernels(kernels), _)) if kernels.is_empty() => {
            "There is no kernel: its variables are gone.".into()
        }
        Ok((Reply::Kernels(kernels), _)) => {
            let states: Vec<String> = kernels
                .iter()
                .map(|kernel| format!("{} is {:?}", kernel.id, kernel.state).to_lowercase())
                .collect();
            format!("Kernels now: {}. Look at the variables before you go on.", states.join(", "))
        }
        _ => "The machine could not tell what the kernels do.".into(),
    }
}
