//! Tools on whole jobs: schedule, status, list, reply, cancel, download.

use std::time::{Duration, Instant};

use sandyard_api::{
    ApiError, ExplainedPartView, ExplainedResultView, JobKind, JobListView, JobState, JobView, LogTextView,
    ScheduleBody, ScheduleView, TicketView, ToolAct, ToolDoneView, bounds,
};
use sandyard_explain::Explanation;
use serde_json::{Value, json};

use super::super::answer::{MAX_TEXT_BYTES, ToolAnswer, readable};
use super::super::arguments::Arguments;
use super::super::call::{ApiCall, CallVerb};
use super::{McpToolContext, ToolEffect, ToolEntry, job_id, output_schema};

/// One poll of a job that is waited for. A change between two polls is seen this much later.
const POLL_S: u64 = 5;
/// Jobs in one listing, if the client does not say: enough to find a recent one.
const DEFAULT_LISTED_JOBS: u64 = 20;
/// Bytes of a log in one call.
const LOG_BYTES: std::ops::RangeInclusive<u64> = 1024..=1024 * 1024;

/// Longest explanation that is read; only its page is passed on.
const MAX_EXPLANATION_BYTES: usize = 8 * 1024 * 1024;

pub(super) const ENTRIES: &[ToolEntry] = &[
    ToolEntry {
        name: "schedule_job",
        title: "Schedule a job",
        description: "Starts a job in a new sandbox: a Linux machine of its own with shell, Python, Node, git and, if used, a \
            desktop. Give either `task` (plain words for the server's own agent; needs a model at the server), or `kind` \
            and `code` (`shell`, `python`, `typescript`, `gui`: runs the code and ends), or `kind` `session` (an open \
            sandbox to work in with run_shell, run_code, the file tools and gui, until it is cancelled or its time is up). \
            Work happens in /workspace, which is kept and can be downloaded afterwards. The sandbox has no network except \
            the hosts in `egress`. Answers at once with the job's id unless `wait_s` is given.",
        effect: ToolEffect::Adds,
        properties: schedule_properties,
        required: &[],
        output: output_schema::<JobView>,
        run: |context, arguments| Box::pin(schedule(context, arguments)),
    },
    ToolEntry {
        name: "job_status",
        title: "Status of a job",
        description: "Tells how a job stands: state, exit code, error with hint, question if it waits for an answer, and the end \
            of its output. `wait_s` waits for the job to end or to ask something, up to that many seconds; ask again if it \
            still runs. The states queued, starting, running, waiting and finishing are passing; succeeded, failed, \
            cancelled and timed_out are final. The sandbox tools work while `sandbox` is `live`.",
        effect: ToolEffect::Reads,
        properties: || {
            json!({
                "job_id": job_id(),
                "wait_s": {"type": "integer", "minimum": 0, "maximum": 300, "description": "Wait this long for the end; keep it below your own time limit for a call"},
            })
        },
        required: &["job_id"],
        output: output_schema::<JobView>,
        run: |context, arguments| Box::pin(status(context, arguments)),
    },
    ToolEntry {
        name: "list_jobs",
        title: "List jobs",
        description: "Lists the jobs that the server keeps, newest first, without their output. Use it to find a job's id, or an \
            open session to go on in.",
        effect: ToolEffect::Reads,
        properties: || {
            json!({
                "status": {"type": "string", "description": "Only these: pending, running, complete, error, or a state such as waiting"},
                "kind": {"type": "string", "description": "Only this kind, such as session or task"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many; 20 if not given"},
                "cursor": {"type": "string", "description": "From the listing before, for the next page"},
            })
        },
        required: &[],
        output: output_schema::<JobListView>,
        run: |context, arguments| Box::pin(list(context, arguments)),
    },
    ToolEntry {
        name: "cancel_job",
        title: "Cancel a job",
        description: "Ends a job or session and whatever runs in it. Its workspace is kept and can still be downloaded. Harmless if \
            the job has ended.",
        effect: ToolEffect::Changes,
        properties: || json!({"job_id": job_id()}),
        required: &["job_id"],
        output: output_schema::<JobView>,
        run: |context, arguments| Box::pin(cancel(context, arguments)),
    },
    ToolEntry {
        name: "delete_job",
        title: "Delete a job",
        description: "Deletes a job with its sandbox, its files, its result and its output, for good. A running one is cancelled first. \
            To end a job and keep its result, use cancel_job.",
        effect: ToolEffect::Changes,
        properties: || json!({"job_id": job_id()}),
        required: &["job_id"],
        output: output_schema::<ToolDoneView>,
        run: |context, arguments| Box::pin(delete(context, arguments)),
    },
    ToolEntry {
        name: "reply_to_job",
        title: "Reply to a job",
        description: "Answers a task that waits (its status has the `question`), or tells a running task something, which its agent \
            reads before its next step.",
        effect: ToolEffect::Changes,
        properties: || {
            json!({
                "job_id": job_id(),
                "text": {"type": "string", "description": "The answer or the message, in plain words"},
            })
        },
        required: &["job_id", "text"],
        output: output_schema::<ToolDoneView>,
        run: |context, arguments| Box::pin(reply(context, arguments)),
    },
    ToolEntry {
        name: "job_logs",
        title: "Output of a job",
        description: "Reads the whole output of a job's own process so far. Of a long one the beginning and the end are shown, with a \
            line saying how much is left out between them; `max_bytes` shows more. What run_shell and run_code print is \
            in their own answers, not here.",
        effect: ToolEffect::Reads,
        properties: || {
            json!({
                "job_id": job_id(),
                "stream": {"type": "string", "enum": ["stdout", "stderr"], "description": "Which output; stdout if not given"},
                "max_bytes": {"type": "integer", "minimum": 1024, "maximum": 1048576, "description": "How much to show; 40960 if not given"},
            })
        },
        required: &["job_id"],
        output: output_schema::<LogTextView>,
        run: |context, arguments| Box::pin(logs(context, arguments)),
    },
    ToolEntry {
        name: "download_link",
        title: "Link to the result",
        description: "Makes a link to the zip of an ended job's workspace, for a person or a program such as curl. It needs no key, \
            works once and only within 30 seconds: make it when it is needed. Files of a live sandbox are read with \
            read_file instead.",
        effect: ToolEffect::Adds,
        properties: || json!({"job_id": job_id()}),
        required: &["job_id"],
        output: output_schema::<TicketView>,
        run: |context, arguments| Box::pin(download_link(context, arguments)),
    },
    ToolEntry {
        name: "explain_result",
        title: "Explain a result",
        description: "Explains the code in an ended job's workspace, in Markdown: what it is, how to run and test it, its parts and \
            how they use each other, where to change what. Computed from the code itself; every use between parts was found \
            in a file. For a job that began with files or a repository, also what it changed.",
        effect: ToolEffect::Reads,
        properties: || json!({"job_id": job_id()}),
        required: &["job_id"],
        output: output_schema::<ExplainedResultView>,
        run: |context, arguments| Box::pin(explain(context, arguments)),
    },
];

fn schedule_properties() -> Value {
    json!({
        "task": {"type": "string", "description": "What to build or do, in plain words, for the server's agent"},
        "kind": {"type": "string", "enum": JobKind::ALL.map(JobKind::as_str), "description": "What the job is; task if only `task` is given"},
        "code": {"type": "string", "description": "For shell: a bash script. For python and typescript: code, run as a notebook cell. For gui: a JSON list of actions or an xdotool script"},
        "name": {"type": "string", "description": "For people, in listings"},
        "files": {"type": "object", "description": "Files to write into /workspace first: {\"path\": \"text\"} or {\"path\": {\"base64\": \"…\"}}"},
        "git": {"type": "object", "properties": {"url": {"type": "string"}, "ref": {"type": "string"}}, "required": ["url"], "description": "A repository to clone into /workspace first: an https URL, and a branch, tag or commit as `ref`. Its host must be in `egress`"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables"},
        "egress": {"type": "array", "items": {"type": "string"}, "description": "Hosts that the sandbox may reach: host, host:port, *.host, or `packages` for the registries of pip, npm and cargo and for GitHub. Nothing if not given"},
        "limits": {"type": "object", "description": ScheduleBody::limit_names().join(", ")},
        "isolation": {"type": "string", "description": "The weakest isolation you accept: any, container, gvisor, vm, or a driver's name"},
        "keep": {"type": "boolean", "description": "Leave the sandbox up after the end, so that the sandbox tools still work"},
        "model": {"type": "string", "description": "For a task: one of the models that the server allows"},
        "budget": {"type": "object", "description": "For a task: steps, tokens, usd"},
        "ask_timeout_s": {"type": "integer", "description": "For a task: how long it waits for an answer before it goes on or ends"},
        "idempotency_key": {"type": "string", "description": "Any text of your own; the same key and arguments give the same job, so a retry is safe"},
        "wait_s": {"type": "integer", "minimum": 0, "maximum": 300, "description": "Wait this long for the end and answer like job_status"},
    })
}

async fn schedule(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let wait_s = arguments.whole("wait_s", bounds::WAIT_S)?;
    let key = arguments.text("idempotency_key")?;
    let mut call = ApiCall::new(CallVerb::Post, "/schedule").json(&arguments.rest());
    if let Some(key) = key {
        call = call.header("idempotency-key", key);
    }
    let scheduled: ScheduleView = context.send(call).await?.view()?;
    match wait_s.filter(|wait_s| *wait_s > 0) {
        Some(wait_s) => Ok(describe(context, watch(context, scheduled.job_id.as_str(), wait_s).await?)),
        None => {
            let view = watch(context, scheduled.job_id.as_str(), 0).await?;
            let said = format!("scheduled job {}; job_status with wait_s tells how it goes", view.job_id);
            Ok(ToolAnswer::of(said).with(&without_empty(&for_model(context, view))))
        }
    }
}

async fn status(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let wait_s = arguments.whole("wait_s", bounds::WAIT_S)?.unwrap_or(0);
    Ok(describe(context, watch(context, id.as_str(), wait_s).await?))
}

/// Waits until a job has ended or asks something, at most this many seconds, and returns its status.
async fn watch(context: McpToolContext<'_>, id: &str, wait_s: u64) -> Result<JobView, ApiError> {
    let deadline = Instant::now() + Duration::from_secs(wait_s);
    let mut look_s = 0;
    loop {
        let call = ApiCall::new(CallVerb::Get, format!("/status/{id}?wait={look_s}"));
        let view: JobView = context.send(call).await?.view()?;
        let left_s = deadline.saturating_duration_since(Instant::now()).as_secs();
        if view.state.is_terminal() || view.state == JobState::Waiting || left_s == 0 {
            return Ok(view);
        }
        look_s = left_s.min(POLL_S);
    }
}

/// A status for a model: its members, then the output as it is.
fn describe(context: McpToolContext<'_>, view: JobView) -> ToolAnswer {
    let view = for_model(context, view);
    let mut answer = ToolAnswer::of(facts(&view));
    for (name, output) in [("stdout", &view.stdout), ("stderr", &view.stderr)] {
        if !output.is_empty() {
            answer.text(format!("[end of {name}]\n{output}"));
        }
    }
    answer.with(&without_empty(&view))
}

/// A status without the proof of its audit, with output to read and addresses to open.
fn for_model(context: McpToolContext<'_>, mut view: JobView) -> JobView {
    let whole = |path: &mut String| *path = format!("{}{path}", context.address);
    view.audit = None;
    view.stdout = readable(&view.stdout);
    view.stderr = readable(&view.stderr);
    whole(&mut view.desktop_url);
    whole(&mut view.lab_url);
    view.download_url.iter_mut().for_each(whole);
    view
}

/// A job's members as JSON, without its output.
fn facts(view: &JobView) -> String {
    let mut value = without_empty(view);
    if let Value::Object(members) = &mut value {
        members.retain(|name, _| !matches!(name.as_str(), "stdout" | "stderr"));
    }
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

/// A job's members as JSON, without those that say nothing.
fn without_empty(view: &JobView) -> Value {
    let mut value = serde_json::to_value(view).unwrap_or_default();
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| !value.is_null());
    }
    value
}

async fn list(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let limit = arguments.whole("limit", bounds::LIST_LIMIT)?.unwrap_or(DEFAULT_LISTED_JOBS);
    let mut path = format!("/jobs?limit={limit}");
    for name in ["status", "kind", "cursor"] {
        if let Some(value) = arguments.text(name)? {
            path.push_str(&format!("&{name}={}", super::files::escape(&value)));
        }
    }
    let page: JobListView = context.send(ApiCall::new(CallVerb::Get, path)).await?.view()?;
    let jobs: Vec<JobView> = page.jobs.into_iter().map(|job| for_model(context, job)).collect();
    let told = jobs.iter().map(without_empty).collect::<Vec<_>>();
    let told = json!({"jobs": told, "cursor": page.cursor});
    if jobs.is_empty() {
        return Ok(ToolAnswer::of("there are no such jobs").with(&told));
    }
    let lines = jobs.iter().map(|job| {
        let brief = json!({
            "job_id": job.job_id, "name": job.name, "kind": job.kind, "input": job.input, "state": job.state,
            "sandbox": job.sandbox, "created_at": job.created_at, "exit_code": job.exit_code,
        });
        brief.to_string()
    });
    let mut answer = ToolAnswer::of(lines.collect::<Vec<_>>().join("\n"));
    if let Some(cursor) = page.cursor {
        answer.text(format!("[there are more: pass cursor `{cursor}`]"));
    }
    Ok(answer.with(&told))
}

async fn cancel(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let view: JobView =
        context.send(ApiCall::new(CallVerb::Post, format!("/jobs/{id}/cancel"))).await?.view()?;
    let said = match view.state.is_terminal() {
        true => format!("the job is {}", view.state.as_str()),
        false => "the job is being cancelled; job_status with wait_s tells when it has ended".to_owned(),
    };
    Ok(ToolAnswer::of(said).with(&without_empty(&for_model(context, view))))
}

async fn reply(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let call = ApiCall::new(CallVerb::Post, format!("/jobs/{id}/reply")).json(&arguments.rest());
    context.send(call).await?.accepted()?;
    Ok(ToolAnswer::of("passed on").with(&ToolDoneView { done: ToolAct::Replied, subject: id.to_string() }))
}

async fn logs(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let stream = arguments.text("stream")?.unwrap_or_else(|| "stdout".to_owned());
    let most = arguments.whole("max_bytes", LOG_BYTES)?;
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(MAX_TEXT_BYTES);
    let path = format!("/jobs/{id}/logs?stream={}", super::files::escape(&stream));
    let reply = context.send(ApiCall::new(CallVerb::Get, path).keep(most)).await?.accepted()?;
    let left_out_bytes = reply.left_out;
    let view = LogTextView { stream, text: reply.text(), left_out_bytes };
    Ok(ToolAnswer::of(view.text.clone()).with(&view))
}

async fn explain(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let call = ApiCall::new(CallVerb::Get, format!("/jobs/{id}/explanation")).keep(MAX_EXPLANATION_BYTES);
    let explanation: Explanation = context.send(call).await?.view()?;
    let parts = explanation.parts.into_iter();
    let view = ExplainedResultView {
        name: explanation.name,
        summary: explanation.summary.sentence,
        parts: parts.map(|part| ExplainedPartView { name: part.name, files: part.files }).collect(),
        markdown: readable(&explanation.markdown),
    };
    Ok(ToolAnswer::of(view.markdown.clone()).with(&view))
}

async fn delete(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    context.send(ApiCall::new(CallVerb::Delete, format!("/jobs/{id}"))).await?.accepted()?;
    Ok(ToolAnswer::of("deleted").with(&ToolDoneView { done: ToolAct::Deleted, subject: id.to_string() }))
}

/// The whole address of a ticket.
pub(super) fn link(context: McpToolContext<'_>, mut ticket: TicketView) -> ToolAnswer {
    ticket.url = format!("{}{}", context.address, ticket.url);
    ToolAnswer::of(ticket.url.clone()).with(&ticket)
}

async fn download_link(
    context: McpToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let view: JobView = context.send(ApiCall::new(CallVerb::Get, format!("/status/{id}"))).await?.view()?;
    if view.download_url.is_none() {
        return Err(ApiError::new(
            sandyard_api::ErrorCode::NotEnded,
            "the job has no result to download yet",
        )
        .with_hint("job_status with wait_s waits for its end; read_file reads files of a live sandbox"));
    }
    let call = ApiCall::new(CallVerb::Post, format!("/jobs/{id}/tickets")).json(&json!({"for": "download"}));
    let ticket: TicketView = context.send(call).await?.view()?;
    Ok(link(context, ticket))
}
