//! Requests that `POST /schedule` accepts and rejects, as tables.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::bounds;
use super::file_body::FileBody;
use super::schedule::{JobKind, OnSilence, RequestedLimits, ScheduleBody};
use crate::{ErrorCode, OnBreach, TaskBudget};

fn code_of(body: &Value) -> ErrorCode {
    ScheduleBody::from_json(body).expect_err(&body.to_string()).code
}

/// A number without bounds would have no name in help texts either.
#[test]
fn each_number_of_limits_and_budget_has_bounds() {
    let numbers = |value: Value| -> BTreeSet<String> {
        let members = value.as_object().unwrap().clone();
        members.into_iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name).collect()
    };
    let names = |names: Vec<&str>| -> BTreeSet<String> { names.into_iter().map(str::to_owned).collect() };
    let limits = serde_json::to_value(RequestedLimits::default()).unwrap();
    assert_eq!(numbers(limits), names(ScheduleBody::limit_names()));
    let budget = serde_json::to_value(TaskBudget::default()).unwrap();
    assert_eq!(numbers(budget), names(ScheduleBody::budget_names()));
}

#[test]
fn each_form_is_understood() {
    for (body, kind, input) in [
        (json!({"task": "build"}), JobKind::Task, "build"),
        (json!({"prompt": "build"}), JobKind::Task, "build"),
        (json!({"kind": "task", "task": "build"}), JobKind::Task, "build"),
        (json!({"kind": "shell", "code": "echo hi"}), JobKind::Shell, "echo hi"),
        (json!({"kind": "python", "code": "1"}), JobKind::Python, "1"),
        (json!({"kind": "typescript", "code": "1"}), JobKind::Typescript, "1"),
        (json!({"kind": "gui", "code": "key a"}), JobKind::Gui, "key a"),
        (json!({"kind": "session"}), JobKind::Session, ""),
        (json!({"kind": "session", "code": null, "name": null}), JobKind::Session, ""),
    ] {
        let request = ScheduleBody::from_json(&body).unwrap();
        assert_eq!(request.work().unwrap(), (kind, input), "{body}");
    }
    let task = ScheduleBody::from_text("Build me a todo app").unwrap();
    assert_eq!(task.work().unwrap(), (JobKind::Task, "Build me a todo app"));
}

#[test]
fn optional_members_are_read() {
    let request = ScheduleBody::from_json(&json!({
        "kind": "shell", "code": "true", "name": "n", "keep": true, "isolation": "native", "model": "openai:gpt",
        "files": {"a/b.txt": "text", "c": {"base64": "AP8="}}, "env": {"A_1": "x"}, "ask_timeout_s": 60,
        "limits": {"cpus": 0.5, "memory_mib": 256, "disk_mib": 100, "pids": 64, "timeout_s": 5, "idle_timeout_s": 2},
        "budget": {"steps": 3, "tokens": 1000, "usd": 0.5},
        "egress": ["example.org", "*.Example.org:443"], "git": {"url": "https://example.org/x.git", "ref": "main"},
    }))
    .unwrap();
    assert_eq!(request.isolation.as_deref(), Some("native"));
    assert_eq!(request.files["a/b.txt"], FileBody::Text("text".into()));
    assert_eq!(request.files["c"].clone().into_bytes(), [0, 255]);
    assert_eq!(request.limits.unwrap().cpus, Some(0.5));
    assert_eq!(request.egress, ["example.org", "*.example.org:443"]);
    assert_eq!(request.keep, Some(true));
}

#[test]
fn bad_work_is_refused() {
    for (body, code) in [
        (json!({}), ErrorCode::MissingMember),
        (json!([]), ErrorCode::InvalidType),
        (json!("x"), ErrorCode::InvalidType),
        (json!({"kind": "shell"}), ErrorCode::MissingMember),
        (json!({"kind": "shell", "code": ""}), ErrorCode::EmptyCode),
        (json!({"kind": "shell", "code": " \n"}), ErrorCode::EmptyCode),
        (json!({"kind": "python", "code": ""}), ErrorCode::EmptyCode),
        (json!({"kind": "shell", "code": 5}), ErrorCode::InvalidType),
        (json!({"kind": 5, "code": "x"}), ErrorCode::InvalidType),
        (json!({"kind": "shel", "code": "x"}), ErrorCode::UnknownKind),
        (json!({"kind": "", "code": "x"}), ErrorCode::UnknownKind),
        (json!({"code": "x"}), ErrorCode::MissingMember),
        (json!({"task": ""}), ErrorCode::EmptyTask),
        (json!({"task": "a", "prompt": "b"}), ErrorCode::ConflictingMembers),
        (json!({"task": "a", "code": "b"}), ErrorCode::ConflictingMembers),
        (json!({"kind": "shell", "task": "b"}), ErrorCode::ConflictingMembers),
        (json!({"kind": "session", "code": "b"}), ErrorCode::ConflictingMembers),
        (json!({"kind": "shell", "code": "a\u{0}b"}), ErrorCode::InvalidValue),
        (json!({"kind": "shell", "code": "x".repeat(8 * 1024 * 1024 + 1)}), ErrorCode::InvalidValue),
    ] {
        let shown = body.to_string();
        assert_eq!(code_of(&body), code, "{}", &shown[..shown.len().min(80)]);
    }
}

#[test]
fn bad_members_are_refused() {
    for (member, value, code) in [
        ("nmae", json!("x"), ErrorCode::UnknownMember),
        ("name", json!(""), ErrorCode::InvalidValue),
        ("name", json!("a\r\nb"), ErrorCode::InvalidValue),
        ("name", json!("n".repeat(201)), ErrorCode::InvalidValue),
        ("name", json!(["x"]), ErrorCode::InvalidType),
        ("keep", json!("yes"), ErrorCode::InvalidType),
        ("env", json!({"A B": "x"}), ErrorCode::InvalidValue),
        ("env", json!({"1A": "x"}), ErrorCode::InvalidValue),
        ("env", json!({"": "x"}), ErrorCode::InvalidValue),
        ("env", json!({"A": 1}), ErrorCode::InvalidType),
        ("env", json!({"A": "x\u{0}"}), ErrorCode::InvalidValue),
        ("env", json!({"A": "x".repeat(200_000)}), ErrorCode::InvalidValue),
        ("env", json!(["A=1"]), ErrorCode::InvalidType),
        ("files", json!({"../x": "y"}), ErrorCode::InvalidValue),
        ("files", json!({"/etc/passwd": "y"}), ErrorCode::InvalidValue),
        ("files", json!({"a/": "y"}), ErrorCode::InvalidValue),
        ("files", json!({"": "y"}), ErrorCode::InvalidValue),
        ("files", json!({"a\u{0}": "y"}), ErrorCode::InvalidValue),
        ("files", json!({"x": 5}), ErrorCode::InvalidType),
        ("files", json!({"x": {"base64": "***"}}), ErrorCode::InvalidValue),
        ("files", json!({"x": {"base46": "AA=="}}), ErrorCode::UnknownMember),
        ("files", json!({"x": {}}), ErrorCode::MissingMember),
        ("files", json!({"a": "1", "a/b": "2"}), ErrorCode::InvalidValue),
        ("isolation", json!("moon"), ErrorCode::InvalidValue),
        ("isolation", json!(3), ErrorCode::InvalidType),
        ("limits", json!({"cpus": 0}), ErrorCode::InvalidValue),
        ("limits", json!({"cpus": -1}), ErrorCode::InvalidValue),
        ("limits", json!({"cpus": "2"}), ErrorCode::InvalidType),
        ("limits", json!({"memory_mib": 1.5}), ErrorCode::InvalidValue),
        ("limits", json!({"memory_mib": 1e30}), ErrorCode::InvalidValue),
        ("limits", json!({"memory": 64}), ErrorCode::UnknownMember),
        ("limits", json!({"timeout_s": 0}), ErrorCode::InvalidValue),
        ("limits", json!([]), ErrorCode::InvalidType),
        ("budget", json!({"steps": 0}), ErrorCode::InvalidValue),
        ("budget", json!({"usd": -1}), ErrorCode::InvalidValue),
        ("egress", json!("example.org"), ErrorCode::InvalidType),
        ("egress", json!(["http://example.org"]), ErrorCode::InvalidValue),
        ("egress", json!(["10.0.0.1"]), ErrorCode::InvalidValue),
        ("egress", json!(["a.b:0"]), ErrorCode::InvalidValue),
        ("egress", json!(["*"]), ErrorCode::InvalidValue),
        ("git", json!({"url": "file:///etc"}), ErrorCode::InvalidValue),
        ("git", json!({"url": "https://e.org/x", "ref": "--upload-pack=x"}), ErrorCode::InvalidValue),
        ("git", json!({"url": "https://e.org/x", "ref": "a..b"}), ErrorCode::InvalidValue),
        ("git", json!({"url": "https://user:key@e.org/x"}), ErrorCode::InvalidValue),
        ("git", json!({"url": "http://e.org/x"}), ErrorCode::InvalidValue),
        ("git", json!({"url": "ssh://e.org/x"}), ErrorCode::InvalidValue),
        ("git", json!({"url": "ext::sh -c x"}), ErrorCode::InvalidValue),
        ("git", json!({"url": "https://127.0.0.1/x"}), ErrorCode::InvalidValue),
        ("git", json!({"url": "https://e.org:0/x"}), ErrorCode::InvalidValue),
        ("git", json!({}), ErrorCode::MissingMember),
        ("ask_timeout_s", json!(-5), ErrorCode::InvalidValue),
        ("model", json!("a b"), ErrorCode::InvalidValue),
    ] {
        let mut body = json!({"kind": "shell", "code": "true"});
        body[member] = value;
        let shown = body.to_string();
        assert_eq!(code_of(&body), code, "{}", &shown[..shown.len().min(120)]);
    }
}

#[test]
fn k22_privileged_members_are_refused_by_name() {
    for member in [
        "privileged",
        "cap_add",
        "capAdd",
        "mounts",
        "volumes",
        "binds",
        "network",
        "network_mode",
        "image",
        "devices",
        "driver_opts",
        "security_opt",
        "pid",
        "ipc",
        "user",
        "userns",
        "runtime",
        "labels",
        "host_config",
    ] {
        let mut body = json!({"kind": "shell", "code": "true"});
        body[member] = json!("host");
        assert_eq!(code_of(&body), ErrorCode::PrivilegedMember, "{member}");
    }
    let within = json!({"kind": "shell", "code": "true", "limits": {"privileged": true}});
    assert_eq!(code_of(&within), ErrorCode::PrivilegedMember);
}

#[test]
fn a_refusal_names_the_place_and_the_nearest_member() {
    let refusal = |body: Value| ScheduleBody::from_json(&body).unwrap_err();
    let error = refusal(json!({"kind": "shell", "code": "x", "limits": {"memory_mb": 5}}));
    assert_eq!(error.message, "there is no member `limits.memory_mb`");
    assert_eq!(error.hint.as_deref(), Some("did you mean `limits.memory_mib`?"));
    let error = refusal(json!({"kind": "shell", "code": "x", "limits": {"pids": "many"}}));
    assert_eq!(error.message, "`limits.pids` must be a whole number, not text");
    let error = refusal(json!({"kind": "pyton", "code": "x"}));
    assert_eq!(error.hint.as_deref(), Some("did you mean `python`?"));
}

#[test]
fn how_a_task_is_worked_on_is_read() {
    let body = json!({
        "task": "build", "model": "ollama/a", "ask_timeout_s": 60, "on_silence": "go_on",
        "budget": {"steps": 5, "usd": 0.5, "on_breach": "end"},
    });
    let request = ScheduleBody::from_json(&body).unwrap();
    assert_eq!((request.model.as_deref(), request.ask_timeout_s), (Some("ollama/a"), Some(60)));
    assert_eq!(request.on_silence, Some(OnSilence::GoOn));
    assert_eq!(request.budget.unwrap().on_breach, OnBreach::End);
    for (member, value) in [
        ("on_silence", json!("wait")),
        ("budget", json!({"on_breach": "panic"})),
        ("budget", json!({"euro": 1})),
        ("task", json!("x".repeat(bounds::TASK_BYTES + 1))),
    ] {
        let mut body = json!({"task": "build"});
        body[member] = value;
        assert!(ScheduleBody::from_json(&body).is_err(), "{member}");
    }
}
