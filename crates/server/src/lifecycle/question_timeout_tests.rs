use sandyard_protocol::WhyAsked;

use super::*;
use crate::job::OpenQuestion;
use crate::job::TaskOptions;
use crate::job::{TaskRow, samples};

/// The time of these tests, since the epoch.
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn patience(ask_timeout_s: u64, on_silence: OnSilence) -> QuestionTimeout {
    let mut job = samples::new_job();
    job.task = TaskOptions { ask_timeout_s: Some(ask_timeout_s), on_silence, ..TaskOptions::default() };
    QuestionTimeout::of(&job)
}

fn asking(why: WhyAsked, asked_s_ago: u64, waited_s: u64) -> JobRow {
    let asked = NOW.saturating_sub(Duration::from_secs(asked_s_ago));
    let asked_ms = i64::try_from(asked.as_millis()).unwrap();
    let question = Some(OpenQuestion { text: "?".into(), why, asked_ms });
    let task = Some(TaskRow { question, waited_ms: waited_s * 1000, ..TaskRow::default() });
    JobRow { task, ..samples::job_row() }
}

fn seconds_left(patience: &QuestionTimeout, row: &JobRow) -> u64 {
    patience
        .until(row, Clock::standing_at(NOW))
        .unwrap()
        .saturating_duration_since(Instant::now())
        .as_secs_f64()
        .round() as u64
}

#[test]
fn a_question_has_its_own_time_and_all_of_them_together_too() {
    let patience = patience(100, OnSilence::End);
    assert_eq!(seconds_left(&patience, &asking(WhyAsked::Ask, 30, 0)), 70);
    assert_eq!(seconds_left(&patience, &asking(WhyAsked::Ask, 200, 0)), 0);
    assert_eq!(seconds_left(&patience, &asking(WhyAsked::Ask, 0, LONGEST_WAITS_S - 10)), 10);
    assert_eq!(patience.until(&samples::job_row(), Clock::standing_at(NOW)), None);
}

#[test]
fn only_what_can_go_on_without_an_answer_does() {
    let strict = patience(1, OnSilence::End);
    assert_eq!(strict.silence(&asking(WhyAsked::Ask, 2, 0)), UnansweredAction::End);
    let easy = patience(1, OnSilence::GoOn);
    assert!(matches!(easy.silence(&asking(WhyAsked::Stuck, 2, 0)), UnansweredAction::Say(_)));
    assert_eq!(easy.silence(&asking(WhyAsked::Budget, 2, 0)), UnansweredAction::End);
}

#[test]
fn waits_are_added_up() {
    assert_eq!(waited(&asking(WhyAsked::Ask, 5, 10), NOW).as_secs(), 15);
    assert_eq!(waited(&samples::job_row(), NOW), Duration::ZERO);
}
