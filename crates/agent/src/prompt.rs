//! All texts that the loop itself writes to the model. The system prompt is the same for all jobs: providers cache it, and recordings
//! are compared by it.

use sandyard_memory::plan_text;
use sandyard_memory::summary::SummaryTree;
use sandyard_protocol::{PlanItem, Speaker, StopReason};

use crate::stuck::{Stuck, StuckSign};

/// The system prompt of every call. Recordings are compared with it, so a change invalidates them.
pub const SYSTEM: &str = include_str!("prompts/system.md");

/// The task, as the first message.
pub(crate) fn task(text: &str) -> String {
    format!("This is the task:\n\n{text}")
}

/// The words of a person, or of the host in a person's place.
pub(crate) fn said(text: &str, by: Speaker) -> String {
    match by {
        Speaker::Person => format!("The person says:\n\n{text}"),
        Speaker::Host => format!("Nobody answered in time. {text}"),
    }
}

/// The note to a model that is stuck, with advice.
pub(crate) fn stuck(stuck: Stuck, stop: StopReason) -> String {
    match stuck.sign {
        StuckSign::Silent if stop == StopReason::Length => {
            "Your answer was cut off because it became too long. Go on with a shorter one: one call, and large files in several parts."
        }
        StuckSign::Silent => {
            "You called no tool, so nothing happened and nobody has read your words. If the task is done, call `finish`. If you need something from the person, call `ask`. Otherwise go on with the next step."
        }
        StuckSign::Repeats => {
            "You have made the same call several times, and the result is the same each time. Doing it again will not change it. Say in one sentence what you expected and what you see, then try something that differs: another way, a look at the cause, or `ask`."
        }
        StuckSign::Alternates => {
            "You are going back and forth between the same two steps, with the same results. Decide which of the two is right, or find the cause that neither of them touches; then go on from there, or `ask`."
        }
        StuckSign::Fails => {
            "Your last calls all failed. Read the last message again, look at what is really there (`files` with `view`, `shell` with `ls` or `pwd`), and go on with something simpler that works."
        }
    }
    .to_owned()
}

/// The question to a person about a model that is stuck.
pub(crate) fn stuck_question(sign: StuckSign, last_words: &str) -> String {
    let what = match sign {
        StuckSign::Silent => "The agent answers without doing anything",
        StuckSign::Repeats => "The agent repeats the same step with the same result",
        StuckSign::Alternates => "The agent goes back and forth between the same two steps",
        StuckSign::Fails => "One step after another fails",
    };
    let end = last_words.floor_char_boundary(1000);
    let words = last_words[..end].trim();
    let words = if words.is_empty() { String::new() } else { format!(" Its last words: {words}") };
    format!("{what}, and being told so did not help. How should it go on?{words}")
}

/// Tells the model that its machine was replaced.
pub(crate) fn new_machine() -> String {
    "The machine was lost and replaced by a new one. Your files in /workspace are as they were on disk. Running commands, servers, kernels with their variables, the desktop, /tmp and everything in your home are gone: start again what you need.".to_owned()
}

/// Stands for turns that are left out: their count, the journal number of the last entry, what happened in them, and the plan at that
/// time.
pub(crate) fn left_out(turns: u64, last: u64, plan: &[PlanItem], summaries: &SummaryTree) -> String {
    let plan = match plan {
        [] => String::new(),
        plan => format!("\nThe plan was then:\n{}", plan_text(plan)),
    };
    let mut happened = String::new();
    for node in summaries.cover(last) {
        happened.push_str(&format!("\n[{} to {}]\n{}", node.covers.start(), node.covers.end(), node.text));
    }
    format!(
        "[Your first {turns} answers and their results, up to number {last} of the journal, are left out here to save room. `recall` finds everything in them. In short:{happened}{plan}]"
    )
}

/// Comes before what was recalled for the present step.
pub(crate) const RECALLED: &str =
    "[From earlier in this job, because it may matter now. Nobody says this; `recall` finds more.]";
