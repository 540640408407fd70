use sandyard_api::{
    EgressDecision, EventBody, FrameEvent, JobEvent, ModelCallEvent, OutputText, PlanItemView, UsageSample,
};
use sandyard_protocol::PlanState;
use serde_json::{Value, json};

use super::*;

/// Every form of a stored event with the JSON that the store has held since the first release.
fn events() -> Vec<(StoredEvent, Value)> {
    let state = StoredEvent::State {
        state: JobState::Failed,
        reason: Some("r".into()),
        question: Some("q".into()),
        exit_code: Some(3),
    };
    let plain_state =
        StoredEvent::State { state: JobState::Queued, reason: None, question: None, exit_code: None };
    let answered = ModelAnswerEvent {
        entry: 2,
        model: "m".into(),
        done: true,
        usd: None,
        tokens_in: 5,
        tokens_cached: 1,
        tokens_out: 4,
    };
    let failed = StoredModelEvent::Failed {
        entry: 2,
        model: "m".into(),
        done: true,
        error: "e".into(),
        code: ModelFailureCode::ContextTooLong,
    };
    let called_off =
        StoredModelEvent::CalledOff { entry: 2, model: "m".into(), done: true, called_off: true };
    let tool = ToolEvent { call: "c".into(), took_ms: 7, ..ToolEvent::default() };
    let item = PlanItemView { text: "t".into(), state: PlanState::Doing };
    vec![
        (state, json!({ "state": "failed", "reason": "r", "question": "q", "exit_code": 3 })),
        (plain_state, json!({ "state": "queued" })),
        (output(OutputStream::Stdout), json!({ "chunk": 1, "offset": 2, "length": 3 })),
        (output(OutputStream::Stderr), json!({ "chunk": 1, "offset": 2, "length": 3 })),
        (StoredEvent::Truncated { stream: OutputStream::Stderr }, json!({ "stream": "stderr" })),
        (StoredEvent::Note { text: "n".into() }, json!({ "text": "n" })),
        (
            StoredEvent::Step { call: "c".into(), tool: "t".into(), arguments: "{}".into() },
            json!({ "call": "c", "tool": "t", "arguments": "{}" }),
        ),
        (
            StoredEvent::Tool(tool),
            json!({ "call": "c", "tool": null, "failed": false, "interrupted": false, "took_ms": 7, "output": "" }),
        ),
        (
            StoredEvent::Model(StoredModelEvent::Text { entry: 2, offset: 0, text: "w".into() }),
            json!({ "entry": 2, "offset": 0, "text": "w" }),
        ),
        (
            StoredEvent::Model(StoredModelEvent::Answered(answered)),
            json!({
                "entry": 2, "model": "m", "done": true, "usd": null, "tokens_in": 5, "tokens_cached": 1, "tokens_out": 4,
            }),
        ),
        (
            StoredEvent::Model(failed),
            json!({ "entry": 2, "model": "m", "done": true, "error": "e", "code": "context_too_long" }),
        ),
        (
            StoredEvent::Model(called_off),
            json!({ "entry": 2, "model": "m", "done": true, "called_off": true }),
        ),
        (StoredEvent::File { path: "p".into() }, json!({ "path": "p" })),
        (StoredEvent::Screenshot { entry: 2, picture: 1 }, json!({ "entry": 2, "picture": 1 })),
        (
            StoredEvent::Frame(FrameEvent { picture: 3, width: 1280, height: 800 }),
            json!({ "picture": 3, "width": 1280, "height": 800 }),
        ),
        (
            StoredEvent::Usage(UsageSample {
                cpu_s: 0.5,
                memory_bytes: 1,
                egress_bytes: 2,
                tokens: 3,
                usd: 0.25,
            }),
            json!({ "cpu_s": 0.5, "memory_bytes": 1, "egress_bytes": 2, "tokens": 3, "usd": 0.25 }),
        ),
        (StoredEvent::Plan { items: vec![item] }, json!({ "items": [{ "text": "t", "state": "doing" }] })),
        (StoredEvent::Said { text: "s".into(), by: Speaker::Person }, json!({ "text": "s", "by": "person" })),
        (
            StoredEvent::Egress(EgressFacts::allowed("h:1".into())),
            json!({ "target": "h:1", "decision": "allowed" }),
        ),
        (
            StoredEvent::Egress(EgressFacts::refused("h:1".into(), "r".into())),
            json!({ "target": "h:1", "decision": "refused", "reason": "r" }),
        ),
        (
            StoredEvent::Egress(EgressFacts::closed("h:1".into(), 1, 2)),
            json!({ "target": "h:1", "decision": "closed", "sent": 1, "received": 2 }),
        ),
    ]
}

fn output(stream: OutputStream) -> StoredEvent {
    StoredEvent::Output { stream, chunk: 1, offset: 2, length: 3 }
}

/// The event that a client reads. A new variant does not compile until it has one.
fn wire(event: StoredEvent) -> EventBody {
    match event {
        StoredEvent::State { state, reason, question, exit_code } => {
            EventBody::State { state, status: state.status(), reason, exit_code, question }
        }
        StoredEvent::Output { stream, offset, length, .. } => {
            let text = OutputText { offset, length, ..OutputText::default() };
            if stream == OutputStream::Stdout { EventBody::Stdout(text) } else { EventBody::Stderr(text) }
        }
        StoredEvent::Truncated { stream } => EventBody::Truncated { stream },
        StoredEvent::Note { text } => EventBody::Note { text },
        StoredEvent::Step { call, tool, arguments } => EventBody::Step { call, tool, arguments },
        StoredEvent::Tool(tool) => EventBody::Tool(tool),
        StoredEvent::Model(event) => EventBody::Model(wire_model(event)),
        StoredEvent::File { path } => EventBody::File { path },
        StoredEvent::Screenshot { entry, picture } => EventBody::Screenshot { entry, picture },
        StoredEvent::Frame(frame) => EventBody::Frame(frame),
        StoredEvent::Usage(sample) => EventBody::Usage(sample),
        StoredEvent::Plan { items } => EventBody::Plan { items },
        StoredEvent::Said { text, by } => EventBody::Said { text, by },
        StoredEvent::Egress(EgressFacts { target, decision, reason, sent, received }) => {
            EventBody::Egress { target, decision, reason, sent, received }
        }
    }
}

fn wire_model(event: StoredModelEvent) -> ModelCallEvent {
    match event {
        StoredModelEvent::Text { entry, offset, text } => {
            ModelCallEvent { entry, offset: Some(offset), text: Some(text), ..ModelCallEvent::default() }
        }
        StoredModelEvent::Answered(answer) => ModelCallEvent {
            entry: answer.entry,
            model: Some(answer.model),
            done: answer.done,
            usd: answer.usd,
            tokens_in: Some(answer.tokens_in),
            tokens_cached: Some(answer.tokens_cached),
            tokens_out: Some(answer.tokens_out),
            ..ModelCallEvent::default()
        },
        StoredModelEvent::Failed { entry, model, done, error, code } => ModelCallEvent {
            entry,
            model: Some(model),
            done,
            error: Some(error),
            code: Some(code),
            ..ModelCallEvent::default()
        },
        StoredModelEvent::CalledOff { entry, model, done, called_off } => {
            ModelCallEvent { entry, model: Some(model), done, called_off, ..ModelCallEvent::default() }
        }
    }
}

#[test]
fn the_stored_form_of_an_event_never_changes() {
    for (event, stored) in events() {
        assert_eq!(event.row(1, 0).data, stored, "{event:?}");
    }
}

#[test]
fn clients_read_every_stored_event_as_the_contract_types_it() {
    for (event, _) in events() {
        let row = event.row(1, 0);
        let mut data = row.data;
        // What `http/events` adds on the way out.
        data["type"] = json!(row.kind);
        data["at"] = json!("2026-01-01T00:00:00.000Z");
        if let StoredEvent::State { state, .. } = &event {
            data["status"] = json!(state.status());
        }
        let read: JobEvent = serde_json::from_value(data).unwrap();
        assert_eq!((read.body.name(), &read.body), (event.kind(), &wire(event.clone())));
    }
    assert_eq!(json!(EgressDecision::Refused), "refused");
}
