use sandyard_api::CodeStatus;
use sandyard_protocol::ModelFailureCode;
use serde_json::json;

use super::*;
use crate::audit::{AnswerFacts, BodyFacts, CallEnd, CallFacts, CallOutcome, ModelAnswerFacts, WrittenFacts};

fn caller(by: &str, over: Option<&'static str>) -> CallerFacts {
    CallerFacts { by: by.into(), over }
}

fn call(call: CallFacts) -> AuditFacts {
    called(call, BodyFacts::default())
}

fn called(call: CallFacts, body: BodyFacts) -> AuditFacts {
    AuditFacts::Call(Box::new(CallRecord { call, body, caller: caller("ticket", Some("mcp")) }))
}

fn result(end: CallEnd) -> AuditFacts {
    AuditFacts::Result(ResultFacts { of: Some(4), kind: "shell", end })
}

fn answer() -> AnswerFacts {
    AnswerFacts { status: 200, took_ms: 5, error: None, outcome: None, written: None }
}

/// Asserts kind and canonical facts. The expected JSON is that of the first release; audits written then must still be
/// readable, so no assertion in this file may change.
fn assert_facts(facts: &AuditFacts, kind: &str, expected: Value) {
    assert_eq!((facts.kind().as_str(), facts.to_json()), (kind, expected));
}

#[test]
fn facts_of_a_jobs_life_keep_their_form() {
    let files = vec![FileDigest { path: "a".into(), size: 1, sha256: Some("f".into()) }];
    let schedule = ScheduleFacts {
        kind: "shell",
        input_sha256: "i".into(),
        request_sha256: "r".into(),
        isolation: "native".into(),
        egress: vec!["h".into()],
        model: None,
        files,
        files_count: 1,
        git: false,
        env: vec!["E".into()],
        caller: caller("local", None),
    };
    assert_facts(
        &AuditFacts::Schedule(Box::new(schedule)),
        "schedule",
        json!({
            "kind": "shell", "input_sha256": "i", "request_sha256": "r", "isolation": "native", "egress": ["h"],
            "model": null, "files": [{ "path": "a", "size": 1, "sha256": "f" }], "files_count": 1, "git": false,
            "env": ["E"], "by": "local",
        }),
    );
    let state = StateFacts {
        state: JobState::TimedOut,
        reason: Some("r".into()),
        driver: Some("native".into()),
        runtime: Some("runc".into()),
        exit_code: Some(-1),
    };
    let plain =
        StateFacts { state: JobState::Queued, reason: None, driver: None, runtime: None, exit_code: None };
    assert_facts(
        &AuditFacts::State(state),
        "state",
        json!({ "state": "timed_out", "reason": "r", "driver": "native", "runtime": "runc", "exit_code": -1 }),
    );
    assert_facts(&AuditFacts::State(plain), "state", json!({ "state": "queued" }));
    let by_key = caller("key:1", Some("mcp"));
    assert_facts(&AuditFacts::Cancel(by_key), "cancel", json!({ "by": "key:1", "over": "mcp" }));
    assert_facts(&AuditFacts::Delete(caller("retention", None)), "delete", json!({ "by": "retention" }));
    let export = ExportFacts { manifest: "m".into(), manifest_sha256: "s".into(), entries: 2, bytes: 9 };
    assert_facts(
        &AuditFacts::Export(export),
        "export",
        json!({ "manifest": "m", "manifest_sha256": "s", "entries": 2, "bytes": 9 }),
    );
    assert_facts(
        &AuditFacts::Artifact { sha256: "s".into(), bytes: 9, left_out: 1 },
        "artifact",
        json!({ "sha256": "s", "bytes": 9, "left_out": 1 }),
    );
}

#[test]
fn facts_of_calls_keep_their_form() {
    let by = json!({ "by": "ticket", "over": "mcp" });
    let with_by = |mut facts: Value| {
        facts.as_object_mut().unwrap().extend(by.as_object().unwrap().clone());
        facts
    };
    let body = BodyFacts {
        bytes: Some(2),
        sha256: Some("s".into()),
        language: Some("l".into()),
        kernel: Some("k".into()),
        purpose: Some("lab".into()),
    };
    let members = json!({ "bytes": 2, "sha256": "s", "language": "l", "kernel": "k", "for": "lab" });
    assert_facts(&called(CallFacts::Ticket {}, body.clone()), "ticket", with_by(members.clone()));
    assert_facts(&called(CallFacts::Shell {}, body.clone()), "shell", with_by(members.clone()));
    assert_facts(&called(CallFacts::Code {}, body.clone()), "code", with_by(members.clone()));
    assert_facts(&called(CallFacts::Gui { what: None }, body.clone()), "gui", with_by(members));
    assert_facts(&call(CallFacts::Download {}), "download", by.clone());
    let screenshot = CallFacts::Gui { what: Some("screenshot") };
    assert_facts(&call(screenshot), "gui", with_by(json!({ "what": "screenshot" })));
    let open = CallFacts::Open { what: "desktop".into(), control: Some(true), method: None };
    assert_facts(&call(open), "open", with_by(json!({ "what": "desktop", "control": true })));
    let port = CallFacts::Open { what: "ports/80".into(), control: None, method: Some("GET".into()) };
    assert_facts(&call(port), "open", with_by(json!({ "what": "ports/80", "method": "GET" })));
    let file = CallFacts::File { operation: "PUT".into(), path: "a".into(), through: Some("lab") };
    let expected = json!({ "operation": "PUT", "path": "a", "through": "lab" });
    assert_facts(&call(file), "file", with_by(expected));
    let kernel = CallFacts::Kernel { method: "POST".into(), kernel: "path".into() };
    let expected = json!({ "method": "POST", "kernel": "path" });
    assert_facts(&call(kernel.clone()), "kernel", with_by(expected));
    let signal = CallFacts::Signal { process: "p1-2".into() };
    assert_facts(&call(signal), "signal", with_by(json!({ "process": "p1-2" })));
    let AuditFacts::Call(record) = called(kernel, body) else { panic!("another kind") };
    assert_eq!(serde_json::to_value(record).unwrap()["kernel"], "k", "the body wins over the path");
}

#[test]
fn facts_of_results_keep_their_form() {
    let of = |mut facts: Value| {
        facts["of"] = json!(4);
        facts["kind"] = json!("shell");
        facts
    };
    assert_facts(&result(CallEnd::GivenUp { given_up: true }), "result", of(json!({ "given_up": true })));
    assert_facts(&result(CallEnd::Forwarded { status: None }), "result", of(json!({ "status": null })));
    let plain = result(CallEnd::Answered(answer()));
    assert_facts(&plain, "result", of(json!({ "status": 200, "took_ms": 5 })));
    let failed = AnswerFacts { error: Some("not_found"), ..answer() };
    assert_facts(
        &result(CallEnd::Answered(failed)),
        "result",
        of(json!({ "status": 200, "took_ms": 5, "error": "not_found" })),
    );
    let outcome = CallOutcome::Shell { exit_code: 1, timed_out: false };
    let shell = AnswerFacts { outcome: Some(outcome), ..answer() };
    assert_facts(
        &result(CallEnd::Answered(shell)),
        "result",
        of(json!({ "status": 200, "took_ms": 5, "outcome": { "exit_code": 1, "timed_out": false } })),
    );
    let outcome = CallOutcome::Code { status: CodeStatus::TimedOut, execution: "x".into() };
    let written = Some(WrittenFacts { sha256: "s".into(), size: 3 });
    let code = AnswerFacts { outcome: Some(outcome), written, ..answer() };
    assert_facts(
        &result(CallEnd::Answered(code)),
        "result",
        of(json!({
            "status": 200, "took_ms": 5, "outcome": { "status": "timed_out", "execution": "x" }, "sha256": "s",
            "size": 3,
        })),
    );
}

#[test]
fn facts_of_a_tasks_work_keep_their_form() {
    let model = |facts| AuditFacts::Model(facts);
    assert_facts(
        &model(ModelCallFacts::asked("m".into(), 2, 9, "s".into())),
        "model",
        json!({ "model": "m", "outcome": "asked", "entry": 2, "bytes": 9, "sha256": "s" }),
    );
    let answer = ModelAnswerFacts {
        tokens_in: 1,
        tokens_cached: 2,
        tokens_out: 3,
        picousd: None,
        calls: 1,
        sha256: "s".into(),
    };
    assert_facts(
        &model(ModelCallFacts::answered("m".into(), answer)),
        "model",
        json!({
            "model": "m", "outcome": "answered", "tokens_in": 1, "tokens_cached": 2, "tokens_out": 3,
            "picousd": null, "calls": 1, "sha256": "s",
        }),
    );
    assert_facts(
        &model(ModelCallFacts::failed("m".into(), 2, ModelFailureCode::NotAllowed)),
        "model",
        json!({ "model": "m", "outcome": "not_allowed", "entry": 2 }),
    );
    assert_facts(
        &model(ModelCallFacts::called_off("m".into(), 2)),
        "model",
        json!({ "model": "m", "outcome": "called_off", "entry": 2 }),
    );
    assert_facts(
        &AuditFacts::Secret { secret: "k".into(), purpose: "a model call", entry: 2 },
        "secret",
        json!({ "secret": "k", "for": "a model call", "entry": 2 }),
    );
    let step = StepFacts {
        call: "c".into(),
        tool: "files".into(),
        bytes: 2,
        sha256: "s".into(),
        action: Some("write".into()),
        path: None,
    };
    assert_facts(
        &AuditFacts::Step(step),
        "step",
        json!({ "call": "c", "tool": "files", "bytes": 2, "sha256": "s", "action": "write" }),
    );
    let end = StepEndFacts {
        call: "c".into(),
        tool: None,
        failed: true,
        interrupted: false,
        took_ms: 1,
        files: vec!["a".into()],
        sha256: "s".into(),
    };
    assert_facts(
        &AuditFacts::StepEnded(end),
        "step_ended",
        json!({
            "call": "c", "tool": null, "failed": true, "interrupted": false, "took_ms": 1, "files": ["a"], "sha256": "s",
        }),
    );
    let asked = AuditFacts::Asked { why: WhyAsked::Stuck, sha256: "s".into() };
    assert_facts(&asked, "asked", json!({ "why": "stuck", "sha256": "s" }));
    let done = AuditFacts::Finished { done: true, sha256: "s".into() };
    assert_facts(&done, "finished", json!({ "done": true, "sha256": "s" }));
    let reply = ReplyFacts::Host { by: "host", waited_s: 3 };
    assert_facts(&AuditFacts::Reply(reply), "reply", json!({ "by": "host", "waited_s": 3 }));
    let reply =
        ReplyFacts::Person { bytes: 1, sha256: "s".into(), budget: true, caller: caller("local", None) };
    assert_facts(
        &AuditFacts::Reply(reply),
        "reply",
        json!({ "bytes": 1, "sha256": "s", "budget": true, "by": "local" }),
    );
}

#[test]
fn facts_of_network_and_files_keep_their_form() {
    let refused = EgressFacts::refused("h:1".into(), "r".into());
    assert_facts(
        &AuditFacts::Egress(refused),
        "egress",
        json!({ "target": "h:1", "decision": "refused", "reason": "r" }),
    );
    let failed = WorkspaceFindings::Failed { failed: "f".into() };
    assert_facts(
        &AuditFacts::Workspace(WorkspaceFacts { after: vec!["shell 3".into()], found: failed }),
        "workspace",
        json!({ "after": ["shell 3"], "failed": "f" }),
    );
    let found = WorkspaceFindings::Changed {
        added: vec![FileDigest { path: "a".into(), size: 0, sha256: None }],
        changed: vec![],
        removed: vec!["b".into()],
        counts: [1, 0, 1],
        entries: 7,
        complete: true,
        first: false,
        took_ms: 2,
    };
    assert_facts(
        &AuditFacts::Workspace(WorkspaceFacts { after: vec![], found }),
        "workspace",
        json!({
            "after": [], "added": [{ "path": "a", "size": 0, "sha256": null }], "changed": [], "removed": ["b"],
            "counts": [1, 0, 1], "entries": 7, "complete": true, "first": false, "took_ms": 2,
        }),
    );
}
