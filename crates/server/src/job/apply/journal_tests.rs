use sandyard_protocol::{PlanItem, PlanState, Speaker};

use super::*;
use crate::job::samples;

fn task() -> JobRow {
    JobRow { task: Some(TaskRow::default()), state: JobState::Running, ..samples::job_row() }
}

/// Adds entries, one second after the other, and returns the kinds of the events that they leave.
fn add(row: &mut JobRow, entries: &[JournalEntry]) -> Vec<String> {
    let mut applied = Applied::default();
    for (second, entry) in entries.iter().enumerate() {
        journal(row, entry, second as i64 * 1000, &mut applied).unwrap();
    }
    applied.events.into_iter().map(|event| event.kind).collect()
}

fn began(call: &str) -> JournalEntry {
    JournalEntry::StepBegan { call: call.into(), name: format!("tool of {call}"), arguments: "{}".into() }
}

fn ended(call: &str) -> JournalEntry {
    JournalEntry::StepEnded {
        call: call.into(),
        parts: vec![],
        failed: false,
        interrupted: false,
        took_ms: 1,
        files: vec![],
    }
}

#[test]
fn a_wait_is_measured_and_a_budget_kept_until_it_is_changed() {
    let mut row = task();
    let asked = JournalEntry::Asked { question: "why?".into(), why: WhyAsked::Ask };
    let budget = Some(sandyard_protocol::TaskBudget { steps: Some(5), ..Default::default() });
    let said = |budget| JournalEntry::Said { text: "so".into(), by: Speaker::Person, budget };
    assert_eq!(add(&mut row, &[asked, said(budget), said(None)]), ["state", "state", "said", "said"]);
    let task = row.task.unwrap();
    assert_eq!((task.question, task.waited_ms, task.budget), (None, 1000, budget));
    assert_eq!((row.state, task.entries), (JobState::Running, 3));
}

#[test]
fn a_question_that_ends_with_the_job_is_no_longer_asked() {
    let mut row = task();
    add(&mut row, &[JournalEntry::Asked { question: "why?".into(), why: WhyAsked::Stuck }]);
    let mut applied = Applied::default();
    move_to(&mut row, JobState::Finishing, None, 500, &mut applied).unwrap();
    assert_eq!(row.task.unwrap().question, None);
    assert_eq!(applied.events[0].data.get("question"), None);
}

#[test]
fn the_end_of_a_step_names_its_tool_whatever_the_order() {
    let mut row = task();
    let mut applied = Applied::default();
    for entry in [began("a"), began("b"), ended("a"), ended("nobody"), ended("b")] {
        journal(&mut row, &entry, 0, &mut applied).unwrap();
    }
    let tools: Vec<_> = applied.events.iter().filter(|event| event.kind == "tool").collect();
    let named: Vec<_> = tools.iter().map(|event| event.data["tool"].as_str()).collect();
    assert_eq!(named, [Some("tool of a"), None, Some("tool of b")]);
    assert!(row.task.unwrap().open_steps.is_empty());
}

#[test]
fn steps_that_never_end_do_not_pile_up() {
    let mut row = task();
    for number in 0..3 * MAX_OPEN_STEPS {
        add(&mut row, &[began(&number.to_string())]);
    }
    assert_eq!(row.task.unwrap().open_steps.len(), MAX_OPEN_STEPS);
}

#[test]
fn a_flood_of_entries_stops_leaving_events_but_states_are_told() {
    let mut row = task();
    if let Some(task) = &mut row.task {
        task.told = MAX_EVENTS - 1;
    }
    let items = vec![PlanItem { text: "x".into(), state: PlanState::Open }];
    let plan = JournalEntry::Plan { items };
    let asked = JournalEntry::Asked { question: "why?".into(), why: WhyAsked::Ask };
    assert_eq!(add(&mut row, &[plan.clone(), plan, asked]), ["plan", "state"]);
    assert_eq!(row.task.unwrap().entries, 3);
}

#[test]
fn texts_are_cut_between_letters() {
    assert_eq!(cut("äöü", 3), "ä…");
    assert_eq!(cut("abc", 3), "abc");
}

#[test]
fn a_wait_for_the_model_is_told_once_and_taken_back() {
    use crate::job::{Change, ModelWaitRow};
    let mut row = task();
    let wait = ModelWaitRow { failed: 2, until_ms: 15_000, why: "busy".into() };
    let changes = |wait: Option<&ModelWaitRow>| vec![Change::ModelWait(wait.cloned())];
    let applied = super::super::apply(&mut row, changes(Some(&wait)), 0).unwrap();
    assert_eq!(row.reason.as_deref(), Some("waiting for the model, next try in 15 s (try 3): busy"));
    assert_eq!((applied.events.len(), &applied.events[0].data["reason"]), (1, &row.reason.clone().into()));
    let again = super::super::apply(&mut row, changes(Some(&wait)), 1).unwrap();
    assert!(again.events.is_empty());
    let over = super::super::apply(&mut row, changes(None), 2).unwrap();
    assert_eq!((row.reason.clone(), over.events.len()), (None, 1));
    // The end of the job clears it too.
    super::super::apply(&mut row, changes(Some(&wait)), 3).unwrap();
    move_to(&mut row, JobState::Finishing, None, 4, &mut Applied::default()).unwrap();
    assert_eq!(row.task.as_ref().unwrap().model_wait, None);
    let late = super::super::apply(&mut row, changes(Some(&wait)), 5).unwrap();
    assert!(late.events.is_empty() && row.reason.is_none());
}
