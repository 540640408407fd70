//! The whole gateway, from a sandbox's stream to strict fakes of the providers and back.

mod fake;
mod sandboxes;
mod strict;
mod world;

use std::sync::atomic::Ordering;
use std::time::Instant;

use sandyard_protocol::{ModelFailureCode, StopReason, ToolCall, limits};

use super::*;
use fake::{FakeAnswer, FakeProvider, FakeWire, KEY, full};
use world::{BOTH, LogCapture, ModelWorld, hear, lone_gateway, models, models_with, open, question};

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text { text: text.into() }
}

fn called(id: &str, arguments: &str) -> ModelEvent {
    ModelEvent::Call(ToolCall { id: id.into(), name: "shell".into(), arguments: arguments.into() })
}

fn done(stop: StopReason) -> ModelEvent {
    let usage = ModelUsage { input: 1000, cached: 600, cache_written: 0, output: 50 };
    ModelEvent::Done { stop, usage }
}

fn refuse(status: u16, body: &str) -> FakeAnswer {
    FakeAnswer::Refuse(status, Vec::new(), body.to_owned())
}

#[tokio::test]
async fn an_answer_comes_through_with_its_calls_and_its_cost() {
    for (kind, usd) in [(FakeWire::OpenAi, 0.00225), (FakeWire::Anthropic, 0.00213)] {
        let calls = [("call_1", "shell", r#"{"command":"ls -l"}"#), ("call_2", "shell", "{\"comm")];
        let events = full(kind, &["Let me ", "look."], &calls, "tool_calls");
        let mut world = ModelWorld::new(kind, vec![FakeAnswer::Events(events)]).await;
        let heard = world.ask(&question()).await;
        let expected = [
            text("Let me look."),
            called("call_1", r#"{"command":"ls -l"}"#),
            called("call_2", "{\"comm"),
            done(StopReason::Calls),
        ];
        assert_eq!(heard, expected, "{kind:?}");
        let ModelCallEnd::Answered { cost: Some(cost), .. } = world.next_told().await else {
            panic!("{kind:?}")
        };
        assert!((cost.usd() - usd).abs() < 1e-9, "{kind:?} {}", cost.usd());
        assert_eq!(world.gateway.budget.spent().tokens(), 1050);
    }
}

#[tokio::test]
async fn refusals_empty_answers_and_cut_ones_are_answers() {
    for kind in BOTH {
        let plays = [("refusal", vec!["No."]), ("stop", vec![]), ("length", vec!["And"])];
        let plays = plays.map(|(reason, words)| FakeAnswer::Events(full(kind, &words, &[], reason)));
        let world = ModelWorld::new(kind, plays.into()).await;
        assert_eq!(world.ask(&question()).await, [text("No."), done(StopReason::Refused)], "{kind:?}");
        assert_eq!(world.ask(&question()).await, [done(StopReason::End)], "{kind:?}");
        assert_eq!(world.ask(&question()).await, [text("And"), done(StopReason::Length)], "{kind:?}");
    }
}

#[tokio::test]
async fn words_are_passed_on_live_and_a_sandbox_that_goes_away_calls_the_question_off() {
    for kind in BOTH {
        let mut world = ModelWorld::new(kind, vec![]).await;
        let first = world.fake.words("Hello");
        world.fake.play(FakeAnswer::Stall(vec![first]));
        let mut client = world.open();
        client.send_message(&question()).await.unwrap();
        assert_eq!(client.receive_message::<ModelEvent>().await.unwrap(), text("Hello"), "{kind:?}");
        assert_eq!(world.fake.open.load(Ordering::SeqCst), 1);
        drop(client);
        assert_eq!(world.next_told().await, ModelCallEnd::CalledOff);
        let gone = Instant::now();
        while world.fake.open.load(Ordering::SeqCst) > 0 {
            assert!(gone.elapsed() < Duration::from_millis(400), "the provider is still asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(world.gateway.budget.spent().tokens() > 0, "what was sent is charged");
    }
}

#[tokio::test]
async fn an_attempt_that_breaks_is_repeated_only_before_anything_was_passed_on() {
    for kind in BOTH {
        let whole = full(kind, &["Yes."], &[], "stop");
        let silent = whole[..1].to_vec();
        let garbage = FakeAnswer::Events(vec!["<garbage>".into()]);
        let plays = vec![
            FakeAnswer::Cut(silent),
            garbage,
            FakeAnswer::Events(whole.clone()),
            FakeAnswer::Cut(whole[..whole.len() - 3].to_vec()),
        ];
        let world = ModelWorld::new(kind, plays).await;
        assert_eq!(world.ask(&question()).await, [text("Yes."), done(StopReason::End)], "{kind:?}");
        assert_eq!(world.fake.asked(), 3);
        let heard = world.ask(&question()).await;
        assert_eq!(heard[0], text("Yes."), "{kind:?}");
        let ModelEvent::Failed(failure) = &heard[1] else { panic!("{heard:?}") };
        assert_eq!(failure.code, ModelFailureCode::Unavailable);
        assert_eq!(world.fake.asked(), 4, "words were passed on: no second attempt");
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_as_it_says() {
    for kind in BOTH {
        let whole = FakeAnswer::Events(full(kind, &["Yes."], &[], "stop"));
        let later =
            |seconds: &str| FakeAnswer::Refuse(429, vec![("retry-after", seconds.into())], "{}".into());
        let world = ModelWorld::new(
            kind,
            vec![later("1"), whole.clone(), refuse(529, "{}"), refuse(503, "x"), whole],
        )
        .await;
        let start = Instant::now();
        assert_eq!(world.ask(&question()).await.len(), 2);
        assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(world.ask(&question()).await.len(), 2);
        assert_eq!(world.fake.asked(), 5);

        let world = ModelWorld::new(kind, vec![later("3600")]).await;
        assert_eq!(world.fail(&question()).await.code, ModelFailureCode::Unavailable);
        assert_eq!(world.fake.asked(), 1, "an hour is not waited");
        let world = ModelWorld::new(
            kind,
            vec![refuse(500, "{}"), refuse(502, "{}"), refuse(504, "{}"), refuse(500, "{}")],
        )
        .await;
        assert!(world.fail(&question()).await.message.contains("status 504"));
        assert_eq!(world.fake.asked(), 3);
        assert_eq!(
            world.gateway.budget.spent(),
            Spent::default(),
            "what the provider did not do costs nothing"
        );
    }
}

#[tokio::test]
async fn final_refusals_are_told_apart_and_not_repeated() {
    let too_long = r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 2 tokens > 1 maximum","code":"context_length_exceeded"}}"#;
    for (status, body, code) in [
        (401, "{}", ModelFailureCode::Credentials),
        (403, "{}", ModelFailureCode::Credentials),
        (400, too_long, ModelFailureCode::ContextTooLong),
        (404, "{}", ModelFailureCode::Rejected),
    ] {
        for kind in BOTH {
            let world = ModelWorld::new(kind, vec![refuse(status, body)]).await;
            assert_eq!(world.fail(&question()).await.code, code, "{status}");
            assert_eq!(world.fake.asked(), 1, "{status}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for kind in BOTH {
        let other = FakeProvider::start(kind, vec![]).await;
        for status in [301, 302, 303, 307, 308] {
            let target = vec![("location", format!("{}/messages", other.base_url))];
            let world = ModelWorld::new(kind, vec![FakeAnswer::Refuse(status, target, String::new())]).await;
            let failure = world.fail(&question()).await;
            assert_eq!(failure.code, ModelFailureCode::Rejected);
            assert!(failure.message.contains("redirects are not followed"), "{}", failure.message);
        }
        assert_eq!(other.asked(), 0);
    }
}

#[tokio::test]
async fn a_server_that_repeats_the_key_does_not_get_it_into_the_sandbox_or_the_log() {
    let log = LogCapture::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    for kind in BOTH {
        let plays = vec![
            FakeAnswer::Echo,
            FakeAnswer::EchoRefusal(400),
            FakeAnswer::EchoRefusal(401),
            FakeAnswer::EchoRefusal(500),
            FakeAnswer::EchoRefusal(500),
            FakeAnswer::EchoRefusal(500),
        ];
        let mut world = ModelWorld::new(kind, plays).await;
        let mut seen = String::new();
        for _ in 0..4 {
            seen.push_str(&format!("{:?}", world.ask(&question()).await));
            seen.push_str(&format!("{:?}", world.next_told().await));
        }
        assert!(seen.contains("[key]"), "the server did repeat it: {seen}");
        assert_eq!(world.fake.asked(), 6);
        for fragment in [KEY, &KEY[..16], &KEY[10..26]] {
            assert!(!seen.contains(fragment), "{seen}");
            assert!(!log.0.lock().unwrap().contains(fragment), "{}", log.0.lock().unwrap());
        }
    }
    assert!(log.0.lock().unwrap().contains("a call of a model failed"), "the log was heard");
}

#[tokio::test]
async fn a_provider_that_is_slow_silent_or_gone_is_given_up() {
    for kind in BOTH {
        let world =
            ModelWorld::new(kind, vec![FakeAnswer::Silence, FakeAnswer::Silence, FakeAnswer::Silence]).await;
        assert!(world.fail(&question()).await.message.contains("did not begin its answer"));
        assert_eq!(world.fake.asked(), 3);
        let world = ModelWorld::new(kind, vec![]).await;
        world.fake.play(FakeAnswer::Stall(vec![world.fake.words("Hello")]));
        let heard = world.ask(&question()).await;
        let ModelEvent::Failed(failure) = &heard[1] else { panic!("{heard:?}") };
        assert!(failure.message.contains("did not go on"), "{}", failure.message);
        let model = models(kind, "http://127.0.0.1:1/v1").find(None).unwrap();
        let (told, _kept) = mpsc::channel(8);
        let gateway = lone_gateway(model, told);
        let mut client = open(&gateway);
        client.send_message(&question()).await.unwrap();
        let heard = hear(&mut client).await;
        let expected = ModelFailure {
            code: ModelFailureCode::Unavailable,
            message: "the provider can't be reached".into(),
        };
        assert_eq!(heard, [ModelEvent::Failed(expected)]);
    }
}

/// The address is for those who watch the job; the sandbox learns only that it is wrong.
#[tokio::test]
async fn a_web_page_is_named_with_its_address_and_not_asked_for_again() {
    let page = || {
        let kind = ("content-type", "text/html".to_owned());
        FakeAnswer::Refuse(200, vec![kind], "<html><body>Welcome to nginx!</body></html>".to_owned())
    };
    let not_found = FakeAnswer::Refuse(404, Vec::new(), "<!doctype html><h1>Not Found</h1>".to_owned());
    for kind in BOTH {
        for play in [page(), not_found.clone()] {
            let mut world = ModelWorld::new(kind, vec![play]).await;
            let failure = world.fail(&question()).await;
            assert_eq!(failure.code, ModelFailureCode::Rejected);
            assert!(failure.message.starts_with("a web page (HTML"), "{}", failure.message);
            assert!(!failure.message.contains(&world.fake.base_url), "{}", failure.message);
            let ModelCallEnd::Failed { address: Some(address), .. } = world.next_told().await else {
                panic!("{kind:?}")
            };
            assert!(address.starts_with(&world.fake.base_url), "{address}");
            assert_eq!(world.fake.asked(), 1);
        }
    }
}

#[tokio::test]
async fn each_pause_is_told_with_its_count_and_trouble_ends() {
    let mut world = ModelWorld::new(FakeWire::OpenAi, vec![refuse(503, "{}"), refuse(503, "{}")]).await;
    world.fake.play(FakeAnswer::Events(full(FakeWire::OpenAi, &["Yes."], &[], "stop")));
    assert_eq!(world.ask(&question()).await, [text("Yes."), done(StopReason::End)]);
    let mut failed = Vec::new();
    while let Ok(report) = world.told.try_recv() {
        if let ModelReport::Pause(pause) = report {
            assert!(pause.reason.contains("status 503"), "{}", pause.reason);
            failed.push(pause.failed);
        }
    }
    assert_eq!(failed, [1, 2]);
    let timeouts = ProviderTimeouts { trouble: Duration::ZERO, ..world::timeouts() };
    let world = ModelWorld::with_timeouts(FakeWire::OpenAi, vec![refuse(503, "{}")], timeouts).await;
    assert_eq!(world.fail(&question()).await.code, ModelFailureCode::Unavailable);
    assert!(world.fake.asked() <= 1, "no attempt begins when the time is up");
}

/// By the paused clock, at an address where nobody listens: each attempt fails at once, and only the pauses take time.
#[tokio::test(start_paused = true)]
async fn with_the_defaults_trouble_lasts_ten_minutes_and_no_longer() {
    let model = models_with(FakeWire::OpenAi, "http://127.0.0.1:1/v1", ProviderTimeouts::default());
    let (told, mut reports) = mpsc::channel(1024);
    let gateway = lone_gateway(model.find(None).unwrap(), told);
    let mut client = open(&gateway);
    let began = tokio::time::Instant::now();
    client.send_message(&question()).await.unwrap();
    let event: ModelEvent = client.receive_message().await.unwrap();
    let passed = began.elapsed().as_secs();
    let ModelEvent::Failed(failure) = event else { panic!("{event:?}") };
    assert_eq!(failure.code, ModelFailureCode::Unavailable);
    // The last pause that would end beyond the bound is not begun; it has a minute at most.
    assert!((530..=600).contains(&passed), "{passed} s");
    let mut failed = Vec::new();
    while let Ok(report) = reports.try_recv() {
        if let ModelReport::Pause(pause) = report {
            assert!(pause.wait <= Duration::from_secs(60));
            failed.push(pause.failed);
        }
    }
    assert!(failed.len() > 10 && failed.is_sorted(), "{failed:?}");
}

#[tokio::test]
async fn an_endless_answer_is_ended() {
    for kind in BOTH {
        let world = ModelWorld::new(kind, vec![]).await;
        world.fake.play(FakeAnswer::Endless(world.fake.words(&"x".repeat(64 * 1024))));
        let heard = world.ask(&question()).await;
        let [ModelEvent::Text { text }, ModelEvent::Failed(failure)] = heard.as_slice() else { panic!() };
        assert!(text.len() <= limits::MODEL_ANSWER_BYTES);
        assert_eq!(failure.message, "the provider's answer is too long");
    }
}

#[tokio::test]
async fn a_provider_is_sent_no_more_calls_at_once_than_it_should() {
    let plays = (0..4).map(|_| FakeAnswer::Events(full(FakeWire::OpenAi, &["Yes."], &[], "stop"))).collect();
    let world = ModelWorld::new(FakeWire::OpenAi, plays).await;
    let call = question();
    let (a, b, c, d) = {
        let calls = [question(), question(), question()];
        let [second, third, fourth] = &calls;
        tokio::join!(world.ask(&call), world.ask(second), world.ask(third), world.ask(fourth))
    };
    for heard in [a, b, c, d] {
        assert_eq!(heard, [text("Yes."), done(StopReason::End)]);
    }
    assert_eq!(world.fake.most_open.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn s1_a_call_is_noted_before_it_leaves_and_without_the_key() {
    for kind in BOTH {
        let world = ModelWorld::new(kind, vec![FakeAnswer::Events(full(kind, &["Yes."], &[], "stop"))]).await;
        world.ask(&question()).await;
        let asked = world.ledger.asked.lock().unwrap();
        let [asking] = asked.as_slice() else { panic!("{asked:?}") };
        assert!(asking.with_key && asking.bytes > 0 && asking.sha256.len() == 64, "{asking:?}");
        assert!(!format!("{asking:?}").contains(KEY), "{asking:?}");
    }
}
