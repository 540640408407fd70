//! Recordings made for a test: what a model would answer, turn by turn, for `--model replay:FILE`.

use std::io::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

/// A call of a tool.
pub(crate) fn call(name: &str, arguments: &Value) -> Value {
    json!({ "name": name, "arguments": arguments.to_string() })
}

pub(crate) fn shell(command: &str) -> Value {
    call("shell", &json!({ "command": command }))
}

pub(crate) fn finish(summary: &str) -> Value {
    call("finish", &json!({ "summary": summary }))
}

/// The specification of a model that plays these turns; the file lives as long as the first part.
pub(crate) fn replay(turns: &[Vec<Value>]) -> (NamedTempFile, String) {
    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, "{}", json!({ "sandyard_recording": 1, "model": "test/by-hand" })).unwrap();
    for (number, calls) in (1..).zip(turns) {
        let mut events = vec![json!({ "event": "text", "text": format!("Turn {number}.") })];
        for (place, call) in calls.iter().enumerate() {
            let mut call = call.clone();
            call["event"] = json!("call");
            call["id"] = json!(format!("call-{number}-{place}"));
            events.push(call);
        }
        let usage = json!({ "input": 1000, "cached": 0, "output": 50 });
        events.push(json!({ "event": "done", "stop": "calls", "usage": usage }));
        let turn = json!({ "turn": number, "template": template(), "events": events });
        writeln!(file, "{turn}").unwrap();
    }
    file.flush().unwrap();
    let spec = format!("replay:{}", file.path().display());
    (file, spec)
}

/// The hash of the prompt's standing part, as the server makes it.
pub(crate) fn template() -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(sandyard_agent::SYSTEM);
    for tool in sandyard_agent::specs() {
        add(&tool.name);
        add(&tool.description);
        add(&tool.parameters.to_string());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
