//! `sandyard code`: run code in a kernel of a live sandbox.

use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use sandyard_api::{CodeError, CodeEvent, CodeRequest, CodeStatus, Language};
use serde_json::Value;

use super::run_input::alternatives;
use crate::client::{ApiClient, ClientError};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::{self, JobOutput, TerminalText};
use crate::ui::clean;

const EXAMPLES: &str = "\
Examples:
  sandyard code abcd1234 -l python 'x = 6'
  sandyard code abcd1234 -l python 'x * 7'
  sandyard code abcd1234 -f plot.py";

/// Run code in a kernel of a live sandbox; variables are kept for the next call
///
/// Prints the output of the code and the value of its last expression. Exits with 1 if the code failed, with 5 if a time limit
/// ended it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CodeCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    #[arg(long, short, value_name = "LANGUAGE", value_parser = parse_language, help = language_help())]
    language: Option<Language>,
    /// The kernel [default: the first one of the language, started when needed]
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<String>,
    /// Read the code from a file, or from standard input for `-`
    #[arg(long, short, value_name = "FILE", conflicts_with = "code")]
    file: Option<PathBuf>,
    /// Interrupt the code after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Print output as it is, escape sequences included, also on a terminal
    #[arg(long)]
    raw: bool,
    /// Print the whole answer as JSON
    #[arg(long)]
    json: bool,
    /// The code
    code: Option<String>,
}

impl CodeCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let request = CodeRequest {
            language: self.language()?,
            code: self.read_code()?,
            kernel: self.kernel.clone(),
            timeout_s: self.timeout,
            idle_timeout_s: None,
            interrupt_on_disconnect: true,
        };
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        if self.json {
            let view = client.code(&id, &request).await?;
            context.ui.json(&view)?;
            return Ok(exit_of(view.status));
        }
        let output = JobOutput::new(TerminalText::from_flag(self.raw));
        follow(context, &client, &id, &request, output).await
    }

    /// Returns the language of `--language`, or that of the file's extension.
    fn language(&self) -> Result<Language, CommandError> {
        let extension = self.file.as_ref().and_then(|file| file.extension()).and_then(|name| name.to_str());
        self.language.or_else(|| extension.and_then(Language::of_extension)).ok_or_else(|| {
            CommandError::usage_with_hint("the language is not known", "name it: `--language python`")
        })
    }

    fn read_code(&self) -> Result<String, CommandError> {
        match (&self.code, &self.file) {
            (Some(code), None) => Ok(code.clone()),
            (None, Some(file)) if file.as_os_str() == "-" => {
                let mut code = String::new();
                io::stdin().lock().read_to_string(&mut code)?;
                Ok(code)
            }
            (None, Some(file)) => Ok(std::fs::read_to_string(file)?),
            _ => Err(CommandError::usage_with_hint(
                "there is no code",
                "write it as an argument, or name a file with --file",
            )),
        }
    }
}

fn language_help() -> String {
    format!("Language of the code: {}", alternatives(&Language::ALL.map(Language::as_str)))
}

fn parse_language(name: &str) -> Result<Language, String> {
    sandyard_api::parse_language(name).map_err(|error| match error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message,
    })
}

fn exit_of(status: CodeStatus) -> CommandExit {
    match status {
        CodeStatus::Ok => CommandExit::Success,
        CodeStatus::TimedOut | CodeStatus::IdleTimedOut => CommandExit::TimedOut,
        _ => CommandExit::Failed,
    }
}

async fn follow(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    request: &CodeRequest,
    mut output: JobOutput,
) -> Result<CommandExit, CommandError> {
    let mut reader = client.code_events(id, request).await?;
    while let Some(frame) = reader.next().await? {
        // A newer server may send events we do not know.
        let Ok(event) = serde_json::from_str::<CodeEvent>(&frame.data) else { continue };
        match event {
            CodeEvent::Stdout { text } => output.stdout(text.as_bytes())?,
            CodeEvent::Stderr { text } => output.stderr(text.as_bytes())?,
            CodeEvent::Display { data } | CodeEvent::Result { data } => {
                output.stdout((shown(&data) + "\n").as_bytes())?;
            }
            CodeEvent::Exception(error) => output.stderr(traceback(&error).as_bytes())?,
            CodeEvent::Note { text } => context.ui.note(&clean(&text)),
            CodeEvent::Truncated { dropped_bytes } => {
                context.ui.warn(&format!("{dropped_bytes} bytes of output were left out here"));
            }
            CodeEvent::Started { .. } | CodeEvent::Clear => {}
            CodeEvent::Done { status, .. } => {
                if exit_of(status) == CommandExit::TimedOut {
                    context.ui.warn("the code was interrupted by its time limit");
                }
                return Ok(exit_of(status));
            }
            CodeEvent::Error { code, message } => {
                return Err(ClientError::Refused { status: 502, code, message, hint: None }.into());
            }
        }
    }
    Err(ClientError::Stream("the stream ended before the code did").into())
}

/// Returns an output for a terminal: its plain text, or the names of its MIME types.
fn shown(data: &std::collections::BTreeMap<String, Value>) -> String {
    match data.get("text/plain").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => format!("[{}]", data.keys().map(|mime| clean(mime)).collect::<Vec<_>>().join(", ")),
    }
}

fn traceback(error: &CodeError) -> String {
    if error.traceback.is_empty() {
        return format!("{}: {}\n", error.name, error.message);
    }
    error.traceback.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_is_zero() {
        assert_eq!(exit_of(CodeStatus::Ok).code(), 0);
        for status in
            [CodeStatus::Error, CodeStatus::TimedOut, CodeStatus::Died, CodeStatus::Lost, CodeStatus::Aborted]
        {
            assert_ne!(exit_of(status).code(), 0, "{status:?}");
        }
    }

    #[test]
    fn a_picture_is_named_and_a_text_is_shown() {
        let data = |mime: &str| [(mime.to_owned(), Value::from("x"))].into();
        assert_eq!(shown(&data("text/plain")), "x");
        assert_eq!(shown(&data("image/png")), "[image/png]");
    }
}
