//! The last lines of `sandyard run`: how the job ended, what it cost, and what helps.

use std::path::Path;

use sandyard_api::{JobKind, JobView};

use crate::client::ApiClient;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::{self, ResultDestination};
use crate::ui::{Ui, clean};

/// What a `run` is asked to do once its job has ended.
pub(super) struct RunEnd<'a> {
    /// Where the result is saved.
    pub(super) output: Option<&'a Path>,
    pub(super) json: bool,
    /// Remove the job with all its data.
    pub(super) rm: bool,
}

impl RunEnd<'_> {
    /// Reports the end of a job, saves its result and, if that is wished, removes it.
    pub(super) async fn finish(
        &self,
        context: &CommandContext,
        client: &ApiClient,
        view: &JobView,
    ) -> Result<CommandExit, CommandError> {
        let (ui, id) = (&context.ui, view.job_id.as_str());
        tell(ui, view);
        if let Some(summary) = view.summary.as_ref().filter(|_| !self.json) {
            ui.line(summary)?;
        }
        if let Some(target) = self.output {
            job::download(ui, client, id, &ResultDestination::parse(target)).await?;
        } else if view.download_url.is_some() && view.kind == JobKind::Task && !self.rm {
            ui.faint(&format!("· the files: sandyard download {} -o DIR", job::short_id(id)));
        }
        if self.json {
            ui.json(view)?;
        }
        if self.rm {
            client.delete(id).await?;
        }
        Ok(CommandExit::of_job(view))
    }
}

/// Tells the end of a job on standard error.
pub(super) fn tell(ui: &Ui, view: &JobView) {
    ui.toned(&sentence(view), job::state_tone(view.state));
    let usage = &view.usage;
    if usage.tokens_in + usage.tokens_out > 0 {
        let money = if usage.usd > 0.0 { format!(", {:.4} USD", usage.usd) } else { String::new() };
        let model = view.model.as_ref().map(|model| format!("{}: ", clean(model))).unwrap_or_default();
        ui.faint(&format!("· {model}{} tokens in, {} out{money}", usage.tokens_in, usage.tokens_out));
    }
    if let Some(hint) = view.error.as_ref().and_then(|error| error.hint.as_ref()) {
        ui.note(&format!("  hint: {}", clean(hint)));
    }
}

fn sentence(view: &JobView) -> String {
    let took = match (view.started_at, view.finished_at) {
        (Some(start), Some(end)) => format!(" after {}", job::age(end, start)),
        _ => String::new(),
    };
    let code = view.exit_code.filter(|code| *code != 0).map(|code| format!(", exit code {code}"));
    let why = view.error.as_ref().map(|error| format!(": {}", clean(&error.message)));
    format!("· {}{took}{}", view.state.as_str().replace('_', " "), why.or(code).unwrap_or_default())
}
