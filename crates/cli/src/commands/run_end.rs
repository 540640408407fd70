//! The last lines of `sandyard run`: how the job ended, what it cost, and what helps.

use sandyard_api::JobView;

use crate::job;
use crate::ui::{Ui, clean};

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
