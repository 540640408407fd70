//! Tools that run something in a live sandbox: a shell command, a piece of code in a kernel.

use sandyard_api::{ApiError, CodeStatus, CodeView, Language, ShellView};
use serde_json::{Value, json};

use super::super::answer::{ToolAnswer, readable};
use super::super::arguments::Arguments;
use super::super::call::{ApiCall, CallVerb};
use super::{McpToolContext, ToolEffect, ToolEntry, job_id, output_schema};

/// Ends a command or code that names no limit of its own: clients of this protocol seldom wait longer.
const DEFAULT_TIMEOUT_S: u64 = 120;

pub(super) const ENTRIES: &[ToolEntry] = &[
    ToolEntry {
        name: "run_shell",
        title: "Run a shell command",
        description: "Runs a command with bash in a live sandbox, in /workspace, and answers with its output and exit code when it ends. \
            Each call is a new shell: `cd` and variables do not last, files and background processes do. Long output is \
            shown by its beginning and end: send it to a file and read that. A command that is to go on after the call \
            belongs in the background with its output in a file (`server > log 2>&1 &`). There is no root and no apt; \
            pip, npm and cargo work if the job's egress allows `packages`.",
        effect: ToolEffect::Changes,
        properties: || {
            json!({
                "job_id": job_id(),
                "command": {"type": "string", "description": "A bash command line or script"},
                "cwd": {"type": "string", "description": "Where to run it; /workspace if not given"},
                "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Added to the environment"},
                "stdin": {"type": "string", "description": "Its whole standard input; none if not given"},
                "timeout_s": {"type": "integer", "minimum": 1, "description": "Ends it after this long and keeps what it printed; 120 if not given"},
                "idle_timeout_s": {"type": "integer", "minimum": 1, "description": "Ends it after this long without output"},
            })
        },
        required: &["job_id", "command"],
        output: output_schema::<ShellView>,
        run: |context, arguments| Box::pin(shell(context, arguments)),
    },
    ToolEntry {
        name: "run_code",
        title: "Run code in a kernel",
        description: "Runs code in a persistent Jupyter kernel of a live sandbox, as a notebook cell: variables, imports and open files \
            last from call to call. Answers with what it printed, the value of the last expression, pictures (plots) and the \
            exception if there was one. Each language has a kernel that starts on first use; `kernel` names another.",
        effect: ToolEffect::Changes,
        properties: || {
            json!({
                "job_id": job_id(),
                "language": {"type": "string", "enum": Language::ALL.map(Language::as_str), "description": "What the code is"},
                "code": {"type": "string", "description": "The code"},
                "kernel": {"type": "string", "description": "A kernel by name; the language's own if not given"},
                "timeout_s": {"type": "integer", "minimum": 1, "description": "Interrupts it after this long and keeps what it printed; 120 if not given"},
                "idle_timeout_s": {"type": "integer", "minimum": 1, "description": "Interrupts it after this long without output"},
            })
        },
        required: &["job_id", "language", "code"],
        output: output_schema::<CodeView>,
        run: |context, arguments| Box::pin(code(context, arguments)),
    },
];

/// The body with a limit, if the client names none.
fn limited(arguments: Arguments) -> Value {
    let mut body = arguments.rest();
    if let Value::Object(members) = &mut body {
        members.entry("timeout_s").or_insert(Value::from(DEFAULT_TIMEOUT_S));
    }
    body
}

async fn shell(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let mut body = limited(arguments);
    // A client that gives the call up must not leave the command running.
    body["interrupt_on_disconnect"] = Value::Bool(true);
    let call = ApiCall::new(CallVerb::Post, format!("/jobs/{id}/shell")).json(&body);
    let mut view: ShellView = context.send(call).await?.view()?;
    view.stdout = readable(&view.stdout);
    view.stderr = readable(&view.stderr);
    let mut text = streams(&view.stdout, &view.stderr);
    if view.timed_out {
        text.push_str("[ended: its time was up]\n");
    }
    text.push_str(&format!("[exit code {}]", view.exit_code));
    Ok(ToolAnswer::of(text).with(&view))
}

/// Both outputs with a line between them; each ends its last line.
fn streams(stdout: &str, stderr: &str) -> String {
    let mut text = readable(stdout);
    let end_line = |text: &mut String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    };
    end_line(&mut text);
    if !stderr.is_empty() {
        text.push_str("[stderr]\n");
        text.push_str(&readable(stderr));
        end_line(&mut text);
    }
    text
}

async fn code(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let mut body = limited(arguments);
    // A client that gives the call up must not leave the kernel busy.
    body["interrupt_on_disconnect"] = Value::Bool(true);
    let call = ApiCall::new(CallVerb::Post, format!("/jobs/{id}/code")).json(&body);
    let mut view: CodeView = context.send(call).await?.view()?;
    view.stdout = readable(&view.stdout);
    view.stderr = readable(&view.stderr);
    let mut answer = ToolAnswer::of(streams(&view.stdout, &view.stderr));
    for forms in &view.outputs {
        show(&mut answer, forms.iter().map(|(mime, value)| (mime.as_str(), value)).collect());
    }
    if let Some(error) = &view.error {
        let trace = error.traceback.join("\n");
        let trace = if trace.is_empty() { format!("{}: {}", error.name, error.message) } else { trace };
        answer.text(format!("[exception]\n{}", readable(&trace)));
    }
    for note in &view.notes {
        answer.text(format!("[{note}]"));
    }
    if view.status != CodeStatus::Ok && view.error.is_none() {
        let status = serde_json::to_value(view.status).unwrap_or_default();
        answer.text(format!("[{}]", status.as_str().unwrap_or("ended early")));
    }
    // Shown above, within bounds.
    view.outputs.clear();
    Ok(answer.with(&view))
}

/// Adds one rich output in its most useful form: a picture, else text, else the names of its forms.
fn show(answer: &mut ToolAnswer, forms: std::collections::BTreeMap<&str, &Value>) {
    for mime in ["image/png", "image/jpeg"] {
        if let Some(base64) = forms.get(mime).and_then(|value| value.as_str()) {
            return answer.picture(mime, base64.trim());
        }
    }
    for mime in ["text/markdown", "text/plain", "application/json", "text/html"] {
        match forms.get(mime) {
            Some(Value::String(text)) => return answer.text(readable(text)),
            Some(other) => return answer.text(readable(&other.to_string())),
            None => {}
        }
    }
    let names: Vec<&str> = forms.keys().copied().collect();
    answer.text(format!("[an output of type {}]", readable(&names.join(", "))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_outputs_are_told_apart() {
        assert_eq!(streams("out", "err"), "out\n[stderr]\nerr\n");
        assert_eq!(streams("out\n", ""), "out\n");
        assert_eq!(streams("", ""), "");
    }

    #[test]
    fn a_limit_is_added_only_where_there_is_none() {
        let given = |value: Value| {
            let members = value.as_object().unwrap().clone();
            limited(Arguments::read(members, &["timeout_s"]).unwrap())["timeout_s"].clone()
        };
        assert_eq!(given(json!({})), 120);
        assert_eq!(given(json!({"timeout_s": 7})), 7);
    }
}
