//! Tools on the kernels of a live sandbox: list, start, interrupt, restart, stop.

use sandyard_api::{ApiError, ErrorCode, KernelListView, KernelView, Language, ToolAct, ToolDoneView};
use serde_json::json;

use super::super::answer::ToolAnswer;
use super::super::arguments::Arguments;
use super::super::call::{ApiCall, CallVerb};
use super::files::escape;
use super::{McpToolContext, ToolEffect, ToolEntry, job_id, output_schema};

pub(super) const ENTRIES: &[ToolEntry] = &[
    ToolEntry {
        name: "list_kernels",
        title: "List kernels",
        description: "Lists the kernels of a live sandbox: name, language, state, and how many executions wait for each. run_code starts \
            the kernel of a language by itself; JupyterLab uses the same ones.",
        effect: ToolEffect::Reads,
        properties: || json!({"job_id": job_id()}),
        required: &["job_id"],
        output: output_schema::<KernelListView>,
        run: |context, arguments| Box::pin(list(context, arguments)),
    },
    ToolEntry {
        name: "start_kernel",
        title: "Start a kernel",
        description: "Starts another kernel in a live sandbox, with variables of its own, and answers with its name for run_code. Kernels \
            work at the same time; calls on one kernel wait for each other.",
        effect: ToolEffect::Adds,
        properties: || {
            json!({
                "job_id": job_id(),
                "language": {"type": "string", "enum": Language::ALL.map(Language::as_str), "description": "What it runs"},
            })
        },
        required: &["job_id", "language"],
        output: output_schema::<KernelView>,
        run: |context, arguments| Box::pin(start(context, arguments)),
    },
    ToolEntry {
        name: "control_kernel",
        title: "Control a kernel",
        description: "Interrupts the code that a kernel of a live sandbox runs, restarts the kernel with empty variables, or stops it.",
        effect: ToolEffect::Changes,
        properties: || {
            json!({
                "job_id": job_id(),
                "kernel": {"type": "string", "description": "The kernel, as list_kernels names it"},
                "action": {"type": "string", "enum": ["interrupt", "restart", "stop"], "description": "What to do"},
            })
        },
        required: &["job_id", "kernel", "action"],
        output: output_schema::<ToolDoneView>,
        run: |context, arguments| Box::pin(control(context, arguments)),
    },
];

async fn list(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let call = ApiCall::new(CallVerb::Get, format!("/jobs/{id}/kernels"));
    let view: KernelListView = context.send(call).await?.view()?;
    let lines: Vec<_> = view.kernels.iter().map(|kernel| json!(kernel).to_string()).collect();
    let text = if lines.is_empty() { "[no kernel runs]".to_owned() } else { lines.join("\n") };
    Ok(ToolAnswer::of(text).with(&view))
}

async fn start(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let call = ApiCall::new(CallVerb::Post, format!("/jobs/{id}/kernels")).json(&arguments.rest());
    let view: KernelView = context.send(call).await?.view()?;
    Ok(ToolAnswer::of(format!("started kernel {}", view.kernel)).with(&view))
}

async fn control(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let kernel = arguments.needed_text("kernel")?;
    let action = arguments.needed_text("action")?;
    // A slash would lead to another route.
    let path = format!("/jobs/{id}/kernels/{}", escape(&kernel).replace('/', "%2F"));
    let (verb, path, done) = match action.as_str() {
        "interrupt" => (CallVerb::Post, format!("{path}/{action}"), ToolAct::Interrupted),
        "restart" => (CallVerb::Post, format!("{path}/{action}"), ToolAct::Restarted),
        "stop" => (CallVerb::Delete, path, ToolAct::Stopped),
        _ => {
            let known = "`action` is one of interrupt, restart and stop";
            return Err(ApiError::new(ErrorCode::InvalidValue, known));
        }
    };
    context.send(ApiCall::new(verb, path)).await?.accepted()?;
    Ok(ToolAnswer::of("done").with(&ToolDoneView { done, subject: kernel }))
}
