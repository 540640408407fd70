//! Trouble with a model looks like trouble: in the status, in `ps`, and said once.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::sandyard;
use crate::provider::{Answer, Provider};
use crate::recording::finish;
use crate::yard::{PATIENCE, Yard};

const KEY: &str = "trouble-key-of-a-test";

/// A yard whose model gives these answers.
async fn troubled(answers: Vec<Answer>) -> (Arc<Provider>, Yard) {
    let provider = Provider::start(KEY, answers);
    let environment = [("OPENAI_COMPATIBLE_API_KEY", Path::new(KEY))];
    let flags = ["--model", &provider.spec()];
    let yard = Yard::start_in(&std::env::temp_dir(), &flags, &environment).await;
    (provider, yard)
}

/// Looks at the status until its reason is as wanted.
async fn until_reason(yard: &Yard, id: &str, wanted: impl Fn(&str) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = yard.status(id).await;
        if status["reason"].as_str().is_some_and(&wanted) {
            return status;
        }
        assert!(Instant::now() < deadline && status["finished_at"].is_null(), "{status}\n{}", yard.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_model_that_does_not_answer_is_waited_for_in_words_and_counted() {
    let mut answers: Vec<Answer> = (0..5).map(|_| Answer::Refusal(503)).collect();
    answers.push(Answer::Calls(vec![finish("Done.")], Duration::ZERO));
    let (_provider, yard) = troubled(answers).await;
    let id = yard.schedule(&serde_json::json!({"task": "Say when you are done"})).await;
    // The pause after the fifth attempt is long enough for `ps`.
    let told = |reason: &str| reason.contains("next try in ") && reason.contains("(try 6)");
    let status = until_reason(&yard, &id, told).await;
    let reason = status["reason"].as_str().unwrap();
    assert!(reason.starts_with("waiting for the model") && reason.contains("status 503"), "{reason}");
    assert!(!reason.contains(KEY), "{reason}");
    let listed = sandyard(&yard.url, &["ps"], &[("COLUMNS", "200")]).await.expect(0).out;
    assert!(listed.contains("waiting for the model, next try in "), "{listed}");
    let ended = yard.wait_end(&id).await;
    assert_eq!((&ended["state"], &ended["reason"]), (&"succeeded".into(), &Value::Null), "{ended}");
    // The story names each try that was waited for once, and nothing of the trouble after it.
    let story = sandyard(&yard.url, &["attach", &id], &[]).await.expect(0).err;
    let tries = |number: usize| story.matches(&format!("(try {number})")).count();
    assert_eq!((tries(5), tries(6), tries(7)), (1, 1, 0), "{story}");
}

#[tokio::test]
async fn a_model_that_turns_the_account_away_is_said_once() {
    let (_provider, yard) = troubled(vec![Answer::Refusal(401)]).await;
    let run = sandyard(&yard.url, &["run", "--offline", "Say when you are done"], &[]).await.expect(1);
    let words = "the provider of the model turns the operator's account away";
    let said = run.err.matches(words).count() + run.out.matches(words).count();
    assert_eq!(said, 1, "{run:?}");
    assert!(!run.err.contains("waiting for the model") && !run.err.contains(KEY), "{run:?}");
}
