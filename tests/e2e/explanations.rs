//! Explanations of results: what the job changed, the commands that succeeded in it, and words of its model.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::desktop::window;
use crate::downloads::read_entry;
use crate::origins::{browse, full_yard};
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

/// Claims with the place of each: a path, and a symbol behind `#`.
fn claims(pairs: &[(&str, &str)]) -> Answer {
    let citation = |place: &str| match place.split_once('#') {
        Some((path, symbol)) => json!({ "path": path, "symbol": symbol }),
        None => json!({ "path": place }),
    };
    let claims: Vec<Value> =
        pairs.iter().map(|(text, place)| json!({ "text": text, "citations": [citation(place)] })).collect();
    Answer::Words(json!({ "claims": claims }).to_string())
}

#[tokio::test]
async fn words_of_the_model_are_checked_repaired_once_and_charged() {
    let words = vec![
        claims(&[("`tool.py` has thirty steps.", "tool.py#step_7"), ("It talks to Kafka.", "kafka.py")]),
        claims(&[
            ("`main.py` runs the first step.", "main.py"),
            ("It is in the cloud.", "cloud.py"),
            ("It is unproved.", "tool.py"),
        ]),
    ];
    let (yard, provider, status) = narrated(words, &[]).await;
    let id = status["job_id"].as_str().unwrap();
    let page = text(&yard.download(id).await, "EXPLAINED.md");
    for part in ["## In words", "`tool.py` has thirty steps.", "`main.py` runs the first step."] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Kafka") && !page.contains("cloud") && !page.contains("unproved"), "{page}");
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
        narrated(vec![claims(&[("x", "tool.py#step_1")])], &["--explain-words-s", "0"]).await;
    assert_eq!((provider.left(), &status["usage"]["tokens_in"]), (1, &json!(2000)), "{status}");
}

#[tokio::test]
async fn a_late_answer_of_the_model_leaves_the_facts() {
    // The answer would come long after the second that the words may take.
    let late = Answer::Calls(vec![shell("true")], Duration::from_secs(30));
    let (yard, _provider, status) = narrated(vec![late], &["--explain-words-s", "1"]).await;
    let id = status["job_id"].as_str().unwrap();
    let page = text(&yard.download(id).await, "EXPLAINED.md");
    assert!(page.contains("tool.py") && !page.contains("## In words"), "{page}");
    let told = yard.events(id).await;
    let notes: Vec<String> =
        told.iter().filter(|(_, kind, _)| kind == "note").map(|(_, _, data)| data.to_string()).collect();
    assert!(notes.iter().any(|note| note.contains("facts alone")), "{notes:?}");
}

/// A program of several parts, whose files try to get markup onto the page.
const PROGRAM: &str = r#"mkdir -p shop/web && cd shop
printf '"""Shows <b>bold</b> <script>alert(1)</script>."""\nfrom shop import web, store\n\ndef main():\n    web.page.show()\n    store.load()\n\nif __name__ == "__main__":\n    main()\n' > main.py
printf 'def load():\n    return 1\n' > store.py
printf 'from shop.web import page\n' > web/__init__.py
printf 'from shop import store\n\ndef show():\n    return store.load()\n' > web/page.py
touch __init__.py"#;

#[tokio::test]
async fn the_explanation_is_served_as_data_page_and_picture_and_to_tools() {
    let yard = Yard::start().await;
    let status = yard.run(&json!({"kind": "shell", "code": PROGRAM})).await;
    let id = status["job_id"].as_str().unwrap();
    let found = explanation(&yard, id).await;
    let first = &found["edges"][0]["evidence"][0];
    assert!(first["file"].as_str().unwrap().starts_with("shop/"), "{found}");
    let page = yard.get(&format!("/jobs/{id}/explained")).await;
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("script-src"), "{policy}");
    let page = page.text().await.unwrap();
    assert!(!page.contains("<script") && !page.contains("<b>bold"), "{page}");
    assert!(page.contains(&format!("href=\"/console/jobs/{id}/files/shop/main.py?line=")), "{page}");
    let dot = yard.get(&format!("/jobs/{id}/diagram.dot")).await.text().await.unwrap();
    assert_eq!(dot, found["dot"].as_str().unwrap());
    assert_eq!(yard.get(&format!("/jobs/{id}/diagram.dot?of=nothing")).await.status(), 404);

    let arguments = json!({"name": "explain_result", "arguments": {"job_id": id}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments});
    let request = yard.client.post(format!("{}/mcp", yard.url)).json(&call);
    let answer = request.header("accept", "application/json, text/event-stream").send().await.unwrap();
    let told = answer.text().await.unwrap();
    assert!(told.contains("shop/main.py") && told.contains("markdown"), "{told}");
    yard.delete(id).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn a_browser_shows_the_page_and_follows_it_to_the_file() {
    let Some(yard) = full_yard(&["browser"]).await else { return };
    let status = yard.run(&json!({"kind": "shell", "code": PROGRAM})).await;
    let id = status["job_id"].as_str().unwrap();
    let zip = yard.download(id).await;
    assert!(has(&zip, "diagram.svg") && text(&zip, "explained.html").contains("<svg"));
    browse(&yard, "explained.mjs", &[id, "shop/main.py"]).await;
}

#[tokio::test]
async fn the_desktop_opens_the_diagram() {
    let Some(yard) = full_yard(&[]).await else { return };
    let status = yard.run(&json!({"kind": "shell", "code": PROGRAM})).await;
    let id = status["job_id"].as_str().unwrap();
    let dot = yard.get(&format!("/jobs/{id}/diagram.dot")).await.bytes().await.unwrap();
    let session = yard.session().await;
    let url = format!("{}/jobs/{session}/files/diagram.dot", yard.url);
    assert!(yard.client.put(url).body(dot).send().await.unwrap().status().is_success());
    let opened =
        yard.shell(&session, "xdot diagram.dot >/tmp/xdot.log 2>&1 & sleep 3; cat /tmp/xdot.log").await;
    assert!(!opened["stdout"].as_str().unwrap().to_lowercase().contains("error"), "{opened}");
    window(&yard, &session, "diagram.dot").await;
    yard.delete(&session).await;
}
