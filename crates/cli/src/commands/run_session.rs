//! A session of `sandyard run`: says how to use it, or opens a terminal in it.

use sandyard_api::{JobView, SandboxState};

use super::run_end::RunEnd;
use super::shell::interact;
use crate::client::ApiClient;
use crate::clock::now;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::{
    self, OnQuestion, OutputDisplay, ResultDestination, TerminalText, Watch, WatchNotes, Watched,
};
use crate::ui::{Ui, clean};

/// Longest wait of one request for the sandbox.
const WAIT_S: u64 = 30;

/// Who serves a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionHost {
    /// A server, where the session goes on when this command has ended.
    Server,
    /// This command: the session lasts as long as it.
    ThisCommand,
}

/// Opens a session: says how to use it, or opens a terminal in it.
pub(super) async fn open(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    end: &RunEnd<'_>,
    shell: bool,
    host: SessionHost,
) -> Result<CommandExit, CommandError> {
    let view = live(&context.ui, client, id).await?;
    if view.state.is_terminal() {
        return end.finish(context, client, &view).await;
    }
    if shell {
        return terminal(context, client, id, end, host).await;
    }
    if end.json {
        context.ui.json(&view)?;
    } else {
        context.ui.line(id)?;
        tell_uses(&context.ui, &view);
    }
    match host {
        SessionHost::Server => Ok(CommandExit::Success),
        SessionHost::ThisCommand => serve(context, client, id, end).await,
    }
}

/// Watches a session whose server this command is.
async fn serve(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    end: &RunEnd<'_>,
) -> Result<CommandExit, CommandError> {
    context.ui.faint("· this command is the session's server, until the session ends");
    let notes = WatchNotes::serving(id, "");
    let output = OutputDisplay::Live(TerminalText::Clean);
    match Watch::new(&context.ui, client, id, output, &notes, OnQuestion::Wait).run().await? {
        Watched::Ended(_) => end.finish(context, client, &client.status(id).await?).await,
        Watched::Left | Watched::Asked => {
            context.ui.note(notes.left());
            Ok(CommandExit::Interrupted)
        }
    }
}

/// Opens a terminal. After it the session is removed if that is wished, ended if nobody else serves it, and goes on otherwise.
async fn terminal(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    end: &RunEnd<'_>,
    host: SessionHost,
) -> Result<CommandExit, CommandError> {
    let exit = interact(context, client, id).await?;
    if end.output.is_some() || end.rm || host == SessionHost::ThisCommand {
        client.cancel(id).await?;
        while !client.status_at_end(id, WAIT_S).await?.state.is_terminal() {}
    }
    if let Some(target) = end.output {
        job::download(&context.ui, client, id, &ResultDestination::parse(target)).await?;
    }
    if end.rm {
        client.delete(id).await?;
    } else if host == SessionHost::Server && end.output.is_none() {
        let short = job::short_id(id);
        context.ui.faint(&format!("· the session goes on: sandyard shell {short}, sandyard cancel {short}"));
    }
    Ok(exit)
}

/// Waits until the sandbox of a session lives, or the session has ended.
async fn live(ui: &Ui, client: &ApiClient, id: &str) -> Result<JobView, CommandError> {
    let mut told = None;
    loop {
        let view = client.status(id).await?;
        if view.sandbox == SandboxState::Live || view.state.is_terminal() {
            return Ok(view);
        }
        let reason = view.waiting_for.as_ref().map(|waiting| waiting.message.clone()).or(view.reason);
        if reason.is_some() && reason != told {
            ui.faint(&format!("· {}: {}", view.state.as_str(), clean(reason.as_deref().unwrap_or_default())));
            told = reason;
        }
        // Reasons change without the state: a short wait shows how far an image is.
        client.status_after(id, 2).await?;
    }
}

fn tell_uses(ui: &Ui, view: &JobView) {
    let short = job::short_id(view.job_id.as_str());
    let ends = view.started_at.map(|start| {
        let end_ms = start.unix_ms().saturating_add_unsigned(view.limits.timeout_s.saturating_mul(1000));
        job::duration(end_ms.saturating_sub(now().unix_ms()).max(0))
    });
    let left = ends.map(|left| format!(", for {left}")).unwrap_or_default();
    ui.note(&format!("the session is live{left}"));
    for (command, use_of_it) in [
        (format!("sandyard shell {short}"), "a terminal; `sandyard shell JOB COMMAND` runs one command"),
        (format!("sandyard code {short} -l python '1+1'"), "code in a kernel that remembers"),
        (format!("sandyard cp FILE {short}:"), "files to it, and back with the sides changed"),
        (
            format!("sandyard open desktop {short}"),
            "its desktop; `open lab` is JupyterLab, `open port` a server in it",
        ),
        (format!("sandyard extend {short} 2h"), "more time"),
        (format!("sandyard cancel {short}"), "the end; its files are kept for `sandyard download`"),
    ] {
        ui.faint(&format!("  {command:<36} {use_of_it}"));
    }
}
