//! What a hostile sandbox may try, and recordings through the whole gateway.

use sandyard_pipe::{FrameLimits, Framed};
use tokio::io::AsyncWriteExt;

use super::world::timeouts;
use super::*;

#[tokio::test]
async fn other_models_and_empty_calls_are_refused_unasked() {
    let world = ModelWorld::new(FakeWire::OpenAi, vec![]).await;
    let call = ModelCall { model: Some("openai/gpt-5".into()), ..question() };
    assert_eq!(world.fail(&call).await.code, ModelFailureCode::NotAllowed);
    let call = ModelCall { messages: vec![], ..question() };
    assert_eq!(world.fail(&call).await.code, ModelFailureCode::Rejected);
    let call = ModelCall { max_tokens: 0, ..question() };
    assert_eq!(world.fail(&call).await.code, ModelFailureCode::Rejected);
    assert_eq!(world.fake.asked(), 0);
}

#[tokio::test]
async fn a_budget_holds_for_calls_at_once_and_cuts_the_longest_answer() {
    let limits = BudgetLimits { tokens: Some(7000), ..BudgetLimits::default() };
    let whole = FakeAnswer::Events(full(FakeWire::OpenAi, &["Yes."], &[], "stop"));
    let mut world = ModelWorld::with(FakeWire::OpenAi, vec![whole; 3], limits, None).await;
    // Some 5,200 tokens of input: two do not fit side by side, whatever they come to.
    let call = question();
    let (one, other) = {
        let next = question();
        tokio::join!(world.ask(&call), world.ask(&next))
    };
    let failures =
        [&one, &other].into_iter().filter(|heard| matches!(heard[..], [ModelEvent::Failed(_)])).count();
    assert_eq!(failures, 1, "{one:?} {other:?}");
    assert_eq!(world.fake.asked(), 1);
    // 1,050 are spent; the next one fits if its answer is cut, and the one after it does not.
    let heard = world.ask(&ModelCall { max_tokens: u32::MAX, ..question() }).await;
    assert_eq!(heard, [text("Yes."), done(StopReason::End)]);
    let longest = world.fake.requests.lock().unwrap()[1]["max_completion_tokens"].as_u64().unwrap();
    assert!((256..950).contains(&longest), "{longest}");
    let refused = world.fail(&question()).await;
    assert_eq!(refused.code, ModelFailureCode::Budget);
    assert_eq!(world.fake.asked(), 2);
    let mut last = None;
    while let Ok(told) = world.told.try_recv() {
        if let ModelReport::Call(called) = told {
            last = Some(called.end);
        }
    }
    assert_eq!(last, Some(ModelCallEnd::Failed { failure: refused, address: None }), "the host learns of it");
}

#[tokio::test]
async fn what_is_no_call_is_refused_and_what_is_too_long_is_not_read() {
    let world = ModelWorld::new(FakeWire::OpenAi, vec![]).await;
    let mut client = world.open();
    client.send_message(&"hello").await.unwrap();
    let heard = hear(&mut client).await;
    assert!(
        matches!(&heard[..], [ModelEvent::Failed(failure)] if failure.code == ModelFailureCode::Rejected)
    );

    let (mut raw, _) = world.open().into_inner();
    let length = u32::try_from(limits::MODEL_CALL_BYTES + 1).unwrap();
    let head = [&[1u8][..], &length.to_be_bytes()].concat();
    raw.write_all(&head).await.unwrap();
    let frames = FrameLimits { message_bytes: 4096, sent_message_bytes: 0, data_bytes: 0 };
    let heard = hear(&mut Framed::new(raw, frames)).await;
    assert!(
        matches!(&heard[..], [ModelEvent::Failed(failure)] if failure.code == ModelFailureCode::ContextTooLong)
    );

    let mut client = world.open();
    client.send_data(b"data").await.unwrap();
    assert_eq!(hear(&mut client).await, [], "who breaks the protocol is not answered");
    assert_eq!(world.fake.asked(), 0);
}

#[tokio::test]
async fn anything_more_on_the_stream_calls_the_question_off() {
    let mut world = ModelWorld::new(FakeWire::Anthropic, vec![]).await;
    world.fake.play(FakeAnswer::Stall(vec![world.fake.words("Hello")]));
    let mut client = world.open();
    client.send_message(&question()).await.unwrap();
    assert_eq!(client.receive_message::<ModelEvent>().await.unwrap(), text("Hello"));
    client.send_message(&question()).await.unwrap();
    assert_eq!(world.next_told().await, ModelCallEnd::CalledOff);
}

#[tokio::test]
async fn what_was_recorded_plays_without_a_provider() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.jsonl");
    let recorder = AnswerRecorder::open(&path, "openai/gpt-4o").await.unwrap();
    let mut call = question();
    call.messages.truncate(1);
    let calls = [("call_1", "shell", r#"{"command":"ls"}"#)];
    let plays = vec![FakeAnswer::Events(full(FakeWire::OpenAi, &["So ", "be it."], &calls, "tool_calls"))];
    let world = ModelWorld::with(FakeWire::OpenAi, plays, BudgetLimits::default(), Some(recorder)).await;
    let live = world.ask(&call).await;

    let spec: ModelSpec = format!("replay:{}", path.display()).parse().unwrap();
    let config = ModelConfig { default: Some(spec.clone()), timeouts: timeouts(), ..ModelConfig::default() };
    let model = Models::new(&config).unwrap().find(None).unwrap();
    assert_eq!(model.name(), spec.to_string(), "a replay is named as one");
    let (told, mut heard_of) = mpsc::channel(8);
    let gateway = lone_gateway(model, told);
    let mut client = open(&gateway);
    client.send_message(&call).await.unwrap();
    assert_eq!(hear(&mut client).await, live);
    let words = heard_of.recv().await.unwrap();
    assert!(matches!(&words, ModelReport::Text(words) if words.text == "So be it."), "{words:?}");
    let told = heard_of.recv().await.unwrap();
    assert!(
        matches!(&told, ModelReport::Call(CallReport { end: ModelCallEnd::Answered { cost: None, .. }, .. })),
        "{told:?}"
    );

    let mut client = open(&gateway);
    client.send_message(&ModelCall { number: 2, ..question() }).await.unwrap();
    let heard = hear(&mut client).await;
    let [ModelEvent::Failed(failure)] = &heard[..] else { panic!("{heard:?}") };
    assert!(
        failure.message.contains("- recorded: shell {\"command\":\"ls\"}\n+ now:      shell {\"x\":1}"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn an_answer_is_kept_before_it_is_complete_and_never_paid_twice() {
    let calls = [("call_1", "shell", r#"{"command":"ls"}"#)];
    let plays = vec![FakeAnswer::Events(full(FakeWire::OpenAi, &["So ", "be it."], &calls, "tool_calls"))];
    let world = ModelWorld::new(FakeWire::OpenAi, plays).await;
    let call = ModelCall { number: 1, ..question() };
    let mut client = world.open();
    client.send_message(&call).await.unwrap();
    loop {
        match client.receive_message::<ModelEvent>().await.unwrap() {
            ModelEvent::Kept { number } => break assert_eq!(number, 1),
            ModelEvent::Text { .. } | ModelEvent::Call(_) => {}
            other => panic!("{other:?}"),
        }
    }
    // It went away just before the end: what it asks again it gets from the journal.
    drop(client);
    assert_eq!(world.ledger.answers.lock().unwrap()[0].1.text, "So be it.");
    let spent = *world.ledger.spent.lock().unwrap();
    assert!(spent.steps == 1 && spent.input > 0 && spent.money > Money::default(), "{spent:?}");
    let again = world.ask(&call).await;
    assert_eq!(again[..2], [text("So be it."), called("call_1", r#"{"command":"ls"}"#)]);
    assert!(matches!(again[2], ModelEvent::Done { stop: StopReason::Calls, .. }));
    assert_eq!(world.fake.asked(), 1);
    assert_eq!(world.gateway.budget.spent(), spent);
}
