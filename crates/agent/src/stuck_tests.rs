use super::*;

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() }
}

fn step(progress: &mut LoopProgress, arguments: &str, result: u64) {
    let call = call("shell", arguments);
    progress.answered(std::slice::from_ref(&call));
    progress.ended(&call, result, false);
}

#[test]
fn the_same_call_with_the_same_result_is_told_twice_and_then_asked_about() {
    let mut progress = LoopProgress::default();
    step(&mut progress, r#"{"command":"make"}"#, 1);
    step(&mut progress, r#"{"command":"make"}"#, 1);
    assert_eq!(progress.stuck(), None);
    for _ in 0..NUDGES {
        step(&mut progress, r#"{"command": "make"}"#, 1);
        assert_eq!(progress.stuck(), Some(Stuck { sign: StuckSign::Repeats, was_told: false }));
        progress.nudged();
        assert_eq!(progress.stuck(), None, "it is told once for each step");
    }
    step(&mut progress, r#"{"command":"make"}"#, 1);
    assert_eq!(progress.stuck(), Some(Stuck { sign: StuckSign::Repeats, was_told: true }));
    progress.heard();
    assert_eq!(progress.stuck(), None);
}

#[test]
fn another_result_is_progress() {
    let mut progress = LoopProgress::default();
    for result in 0..20 {
        step(&mut progress, r#"{"command":"make"}"#, result);
        assert_eq!(progress.stuck(), None);
    }
}

#[test]
fn something_new_between_two_circles_starts_the_count_anew() {
    let mut progress = LoopProgress::default();
    for round in 0..10 {
        for _ in 0..MAX_SAME_STEPS {
            step(&mut progress, r#"{"command":"make"}"#, round);
        }
        assert_eq!(progress.stuck(), Some(Stuck { sign: StuckSign::Repeats, was_told: false }), "{round}");
        progress.nudged();
        step(&mut progress, r#"{"command":"ls"}"#, 100 + round);
        assert_eq!(progress.stuck(), None);
    }
}

#[test]
fn an_edit_and_its_opposite_in_turn_are_a_circle() {
    let mut progress = LoopProgress::default();
    let (there, back) = (r#"{"old":"a","new":"b"}"#, r#"{"old":"b","new":"a"}"#);
    for _ in 0..MAX_ALTERNATIONS - 1 {
        step(&mut progress, there, 1);
        step(&mut progress, back, 2);
        assert_eq!(progress.stuck(), None);
    }
    step(&mut progress, there, 1);
    step(&mut progress, back, 2);
    assert_eq!(progress.stuck().map(|stuck| stuck.sign), Some(StuckSign::Alternates));
}

#[test]
fn one_failure_after_another_is_noticed_whatever_they_are() {
    let mut progress = LoopProgress::default();
    for attempt in 0..MAX_FAILURES {
        assert_eq!(progress.stuck(), None, "{attempt}");
        progress.ended(&call("files", &format!("{{\"path\":\"{attempt}\"}}")), attempt as u64, true);
    }
    assert_eq!(progress.stuck().map(|stuck| stuck.sign), Some(StuckSign::Fails));
}

#[test]
fn answers_without_a_call_are_told_at_once_and_asked_about_in_the_end() {
    let mut progress = LoopProgress::default();
    for answer in 1..SILENT_ANSWERS {
        progress.answered(&[]);
        assert_eq!(progress.stuck(), Some(Stuck { sign: StuckSign::Silent, was_told: false }), "{answer}");
        progress.nudged();
        assert_eq!(progress.stuck(), None);
    }
    progress.answered(&[]);
    assert_eq!(progress.stuck(), Some(Stuck { sign: StuckSign::Silent, was_told: true }));
}

#[test]
fn waiting_for_what_runs_takes_long_to_be_a_circle() {
    let mut progress = LoopProgress::default();
    for _ in 0..MAX_SAME_WAITS - 1 {
        step(&mut progress, r#"{"process":"p1-4"}"#, 1);
        assert_eq!(progress.stuck(), None);
    }
    step(&mut progress, r#"{"process":"p1-4"}"#, 1);
    assert_eq!(progress.stuck().map(|stuck| stuck.sign), Some(StuckSign::Repeats));
}

#[test]
fn a_word_about_something_else_does_not_count() {
    let mut progress = LoopProgress::default();
    for _ in 0..5 {
        progress.nudged();
    }
    for _ in 0..MAX_SAME_STEPS {
        step(&mut progress, r#"{"command":"make"}"#, 1);
    }
    assert_eq!(progress.stuck(), Some(Stuck { sign: StuckSign::Repeats, was_told: false }));
}
