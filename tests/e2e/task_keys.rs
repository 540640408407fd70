//! The provider's key stays with the server: searched for from inside during a run, and in all that the server tells or keeps.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::downloads::read_entry;
use crate::provider::{Answer, Provider};
use crate::recording::{call, finish, shell};
use crate::yard::Yard;

/// The key of the server's provider.
const KEY: &str = "canary-7d1f0c93b2a84e6f95d3c0e1a7b84296";
/// What the job itself has: a search that does not find this finds nothing.
const CONTROL: &str = "canary-0e9b5a27c4d143f88a6b1f2d3c5e7081";
/// So much of the key is as good as the key.
const TELLING: &str = "7d1f0c93b2a84e6f";
/// What stands where the key was.
const MASK: &str = "[key]";
/// The largest file of the server that is searched; disks of sandboxes are larger, and were searched from inside.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

const SEARCH: &str = include_str!("search_for_secrets.py");

async fn yard(provider: &Provider) -> Yard {
    let environment = [("OPENAI_COMPATIBLE_API_KEY", Path::new(KEY))];
    let flags = ["--model", &provider.spec(), "--log", "debug"];
    Yard::start_in(&std::env::temp_dir(), &flags, &environment).await
}

fn hash(secret: &str) -> String {
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A command that searches and leaves what it found.
fn search(result: &str) -> String {
    format!("python3 search.py {} {} > /tmp/{result} && mv /tmp/{result} {result}", hash(KEY), hash(CONTROL))
}

/// Everything that the server told of a job, and everything it keeps.
async fn traces(yard: &Yard, id: &str) -> Vec<(String, Vec<u8>)> {
    let mut traces = vec![("status".to_owned(), yard.status(id).await.to_string().into_bytes())];
    for route in ["events", "audit", "explained"] {
        let told = yard.get(&format!("/jobs/{id}/{route}")).await.bytes().await.unwrap();
        traces.push((route.to_owned(), told.to_vec()));
    }
    for stream in ["stdout", "stderr"] {
        traces.push((stream.to_owned(), yard.logs(id, stream).await.into_bytes()));
    }
    let zip = yard.download(id).await;
    let archive = zip::ZipArchive::new(std::io::Cursor::new(&zip)).unwrap();
    for name in archive.file_names().map(Result::unwrap).filter(|name| !name.ends_with('/')) {
        traces.push((format!("zip: {name}"), read_entry(&zip, &name)));
    }
    let mut folders = vec![yard.data().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.path().symlink_metadata() else { continue };
            if about.is_dir() {
                folders.push(entry.path());
            } else if about.is_file() && about.len() <= FILE_BYTES {
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                traces.push((entry.path().display().to_string(), bytes));
            }
        }
    }
    traces
}

fn holds(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

fn expect_no_key(traces: &[(String, Vec<u8>)]) {
    let leaks: Vec<&String> =
        traces.iter().filter(|(_, bytes)| holds(bytes, TELLING)).map(|(place, _)| place).collect();
    assert!(leaks.is_empty(), "the key is in {leaks:?}");
    for place in ["server.log", "yard.db", "zip: .sandyard/journal.jsonl", "zip: .sandyard/audit.jsonl"] {
        assert!(traces.iter().any(|(name, _)| name.ends_with(place)), "{place} was not searched");
    }
    let used =
        |(name, bytes): &(String, Vec<u8>)| name == "audit" && holds(bytes, "the key of openai-compatible");
    assert!(traces.iter().any(used), "the audit does not tell that the key was used");
}

fn expect_searched(result: &Value) {
    let (found, searched) = (&result["found"], &result["searched"]);
    assert_eq!(found["key"], json!({}), "{result}");
    for kind in ["environ", "cmdline", "memory", "own memory", "file", "open file"] {
        assert!(found["control"][kind].as_u64() > Some(0), "not even the control is in {kind}: {result}");
    }
    assert!(searched["file"].as_u64() > Some(1000), "{result}");
    let programs = result["memory_of"].as_array().unwrap();
    assert!(programs.contains(&json!("sandyard-agent")), "the agent speaks for the model: {result}");
}

#[tokio::test]
async fn a_search_of_the_whole_sandbox_during_a_run_does_not_find_the_key() {
    let decoy = "mkdir -p /tmp/.hidden /dev/shm/.hidden; echo $CONTROL | tee /tmp/.hidden/note > /dev/shm/.hidden/note; \
                 python3 -c 'import time; time.sleep(300)' $CONTROL < /tmp/.hidden/note > /dev/null 2>&1 &";
    // The model itself may hand on the key, if its provider puts it in its mouth.
    let echo = format!("echo 'Bearer {KEY}' > echoed");
    let answer = |calls, seconds| Answer::Calls(calls, Duration::from_secs(seconds));
    let wait = "for i in $(seq 200); do [ -e during.json ] && exit; sleep 0.2; done; exit 1";
    let provider = Provider::start(
        KEY,
        vec![
            answer(
                vec![call("files", &json!({ "action": "write", "path": "search.py", "content": SEARCH }))],
                0,
            ),
            answer(vec![shell(&format!("{decoy}\n{echo}; sleep 0.5; {}", search("first.json")))], 0),
            answer(vec![shell(&format!("({}) > /dev/null 2>&1 &", search("during.json")))], 0),
            // The second search goes on while the server hears this answer.
            answer(vec![shell(wait)], 5),
            answer(vec![finish("Searched.")], 0),
        ],
    );
    let yard = yard(&provider).await;
    let status = yard.run(&json!({ "task": "Search", "env": { "CONTROL": CONTROL } })).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    assert_eq!(provider.left(), 0);
    let id = status["job_id"].as_str().unwrap();
    let zip = yard.download(id).await;
    for name in ["first.json", "during.json"] {
        expect_searched(&serde_json::from_slice(&read_entry(&zip, name)).unwrap());
    }
    assert_eq!(String::from_utf8(read_entry(&zip, "echoed")).unwrap(), format!("Bearer {MASK}\n"));
    let traces = traces(&yard, id).await;
    expect_no_key(&traces);
    for place in ["events", "zip: .sandyard/journal.jsonl"] {
        let (_, bytes) = traces.iter().find(|(name, _)| name == place).unwrap();
        assert!(holds(bytes, MASK), "{place} does not show what the provider said");
    }
}

#[tokio::test]
async fn a_provider_that_repeats_headers_in_a_refusal_gives_nothing_away() {
    for status in [400, 401, 500] {
        let done = Answer::Calls(vec![finish("Done.")], Duration::ZERO);
        let provider = Provider::start(KEY, vec![Answer::Refusal(status), done]);
        let yard = yard(&provider).await;
        let ended = yard.run(&json!({ "task": "Fail" })).await;
        // What may pass is asked again.
        let (state, left) = if status == 500 { ("succeeded", 0) } else { ("failed", 1) };
        assert_eq!((&ended["state"], provider.left()), (&json!(state), left), "{status}: {ended}");
        let traces = traces(&yard, ended["job_id"].as_str().unwrap()).await;
        expect_no_key(&traces);
        // With 401 the provider's words are not passed on at all.
        let (place, told) = match status {
            400 => ("status", true),
            401 => ("status", false),
            _ => ("server.log", true),
        };
        let shown = traces.iter().any(|(name, bytes)| name.ends_with(place) && holds(bytes, MASK));
        assert_eq!(shown, told, "{status}: {ended}");
    }
}
