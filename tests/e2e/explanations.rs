//! Explanations of results: what the job changed, the commands that succeeded in it, and words of its model.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::downloads::read_entry;
use crate::provider::{Answer, Provider};
use crate::recording::{finish, shell};
use crate::yard::Yard;

fn text(zip: &[u8], name: &str) -> String {
    String::from_utf8(read_entry(zip, name)).unwrap()
}

fn has(zip: &[u8], name: &str) -> bool {
    let archive = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    archive.file_names().any(|found| found.unwrap() == name)
}

async fn explanation(yard: &Yard, id: &str) -> Value {
    yard.get_json(&format!("/jobs/{id}/explanation")).await
}

#[tokio::test]
async fn a_job_that_began_with_files_tells_what_it_changed() {
    let yard = Yard::start().await;
    let code = "python3 app.py && printf 'import store\\n\\ndef web():\\n    store.load()\\n' > web.py && rm old.py && echo '# more' >> app.py";
    let files = json!({
        "app.py": "import store\nimport old\n\nstore.load()\n",
        "store.py": "def load():\n    return 1\n",
        "old.py": "x = 1\n",
        "same.py": "import store\n",
    });
    let status = yard.run(&json!({"kind": "shell", "code": code, "files": files})).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let id = status["job_id"].as_str().unwrap();
    let zip = yard.download(id).await;
    let page = text(&zip, "EXPLAINED.md");
    for part in
        ["## What this job changed", "Added (1): [`web.py:1`]", "Removed (1): `old.py`", "`python3 app.py"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(has(&zip, "changes.dot"));
    let changes = &explanation(&yard, id).await["changes"]["changes"];
    assert_eq!(changes["added_files"], json!(["web.py"]));
    assert_eq!(changes["removed_files"], json!(["old.py"]));
    assert_eq!(changes["changed_files"], json!(["app.py"]), "what the request brought is no edit of the job");
}

#[tokio::test]
async fn a_job_without_a_start_or_without_code_has_no_changes() {
    let yard = Yard::start().await;
    let made = json!({"kind": "shell", "code": "echo 'x = 1' > a.py; echo 'import a' > b.py"});
    let status = yard.run(&made).await;
    let id = status["job_id"].as_str().unwrap();
    assert!(explanation(&yard, id).await.get("changes").is_none());
    assert!(!has(&yard.download(id).await, "changes.dot"));
    let status = yard.run(&json!({"kind": "shell", "code": "echo only words > a.txt"})).await;
    assert!(status.get("explanation").is_none_or(Value::is_null), "{status}");
    assert!(!has(&yard.download(status["job_id"].as_str().unwrap()).await, "EXPLAINED.md"));
}

const KEY: &str = "canary-of-the-explainer-4b1d6f";

/// A task that writes sixty lines of Python, then these answers.
async fn narrated(words: Vec<Answer>, flags: &[&str]) -> (Yard, Arc<Provider>, Value) {
    let write = "for i in $(seq 30); do printf 'def step_%s():\\n    return %s\\n' $i $i; done > tool.py; printf 'import tool\\ntool.step_1()\\n' > main.py";
    let calls = |calls| Answer::Calls(calls, Duration::ZERO);
    let mut answers = vec![calls(vec![shell(write)]), calls(vec![finish("Written.")])];
    answers.extend(words);
    let provider = Provider::start(KEY, answers);
    let spec = provider.spec();
    let flags: Vec<&str> = ["--model", &spec].into_iter().chain(flags.iter().copied()).collect();
    let environment = [("OPENAI_COMPATIBLE_API_KEY", Path::new(KEY))];
    let yard = Yard::start_in(&std::env::temp_dir(), &flags, &environment).await;
    let status = yard.run(&json!({ "task": "Write a tool" })).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    (yard, provider, status)
}

fn claims(pairs: &[(&str, &str)]) -> Answer {
    let claims: Vec<Value> =
        pairs.iter().map(|(text, path)| json!({ "text": text, "citations": [{ "path": path }] })).collect();
    Answer::Words(json!({ "claims": claims }).to_string())
}

#[tokio::test]
async fn words_of_the_model_are_checked_repaired_once_and_charged() {
    let words = vec![
        claims(&[("`tool.py` has thirty steps.", "tool.py"), ("It talks to Kafka.", "kafka.py")]),
        claims(&[("`main.py` runs the first step.", "main.py"), ("It is in the cloud.", "cloud.py")]),
    ];
    let (yard, provider, status) = narrated(words, &[]).await;
    let id = status["job_id"].as_str().unwrap();
    let page = text(&yard.download(id).await, "EXPLAINED.md");
    for part in ["## In words", "`tool.py` has thirty steps.", "`main.py` runs the first step."] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Kafka") && !page.contains("cloud"), "{page}");
    assert_eq!(provider.left(), 0);
    assert_eq!(status["usage"]["tokens_in"], 4000, "both calls are charged to the job: {status}");
    let told = yard.events(id).await;
    let notes = told.iter().filter(|(_, kind, _)| kind == "note").map(|(_, _, data)| data.to_string());
    assert!(notes.into_iter().any(|note| note.contains("describes the result")), "{told:?}");
}

#[tokio::test]
async fn a_model_that_fails_or_is_not_wanted_leaves_the_facts() {
    let (yard, _provider, status) = narrated(vec![Answer::Refusal(400)], &[]).await;
    let page = text(&yard.download(status["job_id"].as_str().unwrap()).await, "EXPLAINED.md");
    assert!(page.contains("tool.py") && !page.contains("## In words"), "{page}");
    let (_yard, provider, status) =
        narrated(vec![claims(&[("x", "tool.py")])], &["--explain-words-s", "0"]).await;
    assert_eq!((provider.left(), &status["usage"]["tokens_in"]), (1, &json!(2000)), "{status}");
}
