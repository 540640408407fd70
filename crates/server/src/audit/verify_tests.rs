use serde_json::json;

use super::*;
use crate::audit::{AuditActor, AuditChain, SigningKey};

struct Made {
    key: SigningKey,
    lines: Vec<String>,
    head: AuditHead,
    _folder: tempfile::TempDir,
}

fn made(records: u64) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let key = SigningKey::load_or_create(&folder.path().join("audit.key")).unwrap();
    let mut chain = AuditChain::begin("job");
    let lines = (1..=records)
        .map(|number| {
            chain.append(1_000, AuditActor::Host, "file", json!({ "path": format!("f{number}") })).text
        })
        .collect();
    let head = AuditHead {
        job: "job".into(),
        records,
        head: chain.head.to_string(),
        signature: key.sign("job", records, &chain.head),
        key: key.public().to_string(),
    };
    Made { key, lines, head, _folder: folder }
}

impl Made {
    fn verify(&self) -> AuditVerdict {
        let mut lines = self.lines.clone();
        lines.push(self.head.line());
        verify_lines(&lines.join("\n"), Some(self.key.public())).unwrap()
    }

    fn told(&self) -> Vec<String> {
        self.verify().faults.iter().map(ToString::to_string).collect()
    }

    /// Writes a record anew with its own hash, as somebody would who knows the form.
    fn rehash(&mut self, place: usize) {
        let mut value: Value = serde_json::from_str(&self.lines[place]).unwrap();
        value.as_object_mut().unwrap().remove("hash");
        let hash = Sha256Digest::of(encode(&value).as_bytes()).to_string();
        value["hash"] = json!(hash);
        self.lines[place] = value.to_string();
    }
}

#[test]
fn what_was_signed_is_right_also_in_another_spelling() {
    let mut made = made(5);
    assert!(made.verify().faults.is_empty());
    let value: Value = serde_json::from_str(&made.lines[2]).unwrap();
    made.lines[2] = format!("{value:#}").replace('\n', " ");
    assert!(made.verify().faults.is_empty(), "white space is no content");
}

#[test]
fn an_altered_record_is_named() {
    for place in 0..5 {
        let mut made = made(5);
        made.lines[place] =
            made.lines[place].replace("\":\"f", "\":\"g").replace("\":\"gile\"", "\":\"file\"");
        assert_eq!(made.told(), [format!("record {} was altered", place + 1)]);
    }
}

#[test]
fn an_altered_record_with_its_hash_made_anew_is_named() {
    for place in 0..4 {
        let mut made = made(5);
        made.lines[place] =
            made.lines[place].replace("\":\"f", "\":\"g").replace("\":\"gile\"", "\":\"file\"");
        made.rehash(place);
        assert_eq!(made.told(), [format!("record {} was altered", place + 1)]);
    }
    let mut made = made(5);
    made.lines[4] = made.lines[4].replace("\":\"f", "\":\"g").replace("\":\"gile\"", "\":\"file\"");
    made.rehash(4);
    assert_eq!(made.told(), ["the records were rewritten: the last hash differs from the signed one"]);
}

#[test]
fn records_that_were_removed_are_named() {
    let mut one = made(6);
    one.lines.remove(2);
    assert_eq!(one.told(), ["record 3 is missing"]);
    let mut some = made(6);
    some.lines.drain(0..2);
    assert_eq!(some.told(), ["records 1 to 2 are missing"]);
}

#[test]
fn records_that_were_swapped_are_named() {
    let mut made = made(6);
    made.lines.swap(1, 2);
    assert_eq!(made.told(), ["record 2 is out of order: it stands after record 3"]);
}

#[test]
fn a_cut_off_end_is_named() {
    let mut made = made(6);
    made.lines.truncate(4);
    assert_eq!(made.told(), ["the end was cut off: records 5 to 6 are missing"]);
    made.lines.clear();
    assert_eq!(made.told(), ["the end was cut off: records 1 to 6 are missing"]);
}

#[test]
fn records_that_were_added_or_repeated_are_named() {
    let mut made = made(3);
    let mut chain = AuditChain { records: 3, head: made.head.head.parse().unwrap() };
    made.lines.push(chain.append(2_000, AuditActor::Host, "file", json!({})).text);
    assert_eq!(made.told(), ["record 4 was added after the signed end"]);
    made.lines[3] = made.lines[1].clone();
    assert_eq!(made.told(), ["record 2 is there twice"]);
}

#[test]
fn records_of_another_job_do_not_fit() {
    let mut made = made(2);
    made.lines[0] =
        AuditChain::begin("other").append(1_000, AuditActor::Host, "file", json!({ "path": "f1" })).text;
    assert_eq!(made.told(), ["record 1 does not continue this chain", "record 1 was altered"]);
}

#[test]
fn a_chain_that_was_made_anew_is_found_by_its_signature() {
    let (mut made, other) = (made(3), made(3));
    made.lines[1] = made.lines[1].replace("\":\"f", "\":\"g").replace("\":\"gile\"", "\":\"file\"");
    let mut chain = AuditChain::begin("job");
    for line in &mut made.lines {
        let value: Value = serde_json::from_str(line).unwrap();
        *line = chain.append(1_000, AuditActor::Host, "file", value["facts"].clone()).text;
    }
    made.head.head = chain.head.to_string();
    let key = made.key.public();
    assert_eq!(made.told(), [format!("the head is not signed by the key {key}")]);
    // Signed by somebody else, who names his own key.
    made.head.signature = other.key.sign("job", 3, &chain.head);
    made.head.key = other.key.public().to_string();
    let named = other.key.public();
    assert_eq!(
        made.told(),
        [
            format!("the audit names the key {named}, not the expected {key}"),
            format!("the head is not signed by the key {key}")
        ]
    );
    // Without a key to expect it would be believed: that is why one can be given.
    let text = [made.lines.clone(), vec![made.head.line()]].concat().join("\n");
    assert!(verify_lines(&text, None).unwrap().faults.is_empty());
}

#[test]
fn any_flipped_byte_is_found() {
    let made = made(4);
    let text = [made.lines.clone(), vec![made.head.line()]].concat().join("\n");
    for place in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[place] ^= 1;
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        let found = verify_lines(&changed, Some(made.key.public()));
        assert!(found.is_err() || !found.unwrap().faults.is_empty(), "byte {place}: {changed}");
    }
}

#[test]
fn garbage_is_refused_without_panic() {
    for text in [
        "",
        "\n",
        "{}",
        "[]",
        "{\"head\":{}}",
        "null\nnull",
        "{\"head\":{\"job\":\"j\",\"records\":1,\"head\":\"x\",\"signature\":\"y\",\"key\":\"z\"}}",
    ] {
        assert!(verify_lines(text, None).is_err(), "{text}");
    }
    let mut made = made(2);
    made.lines[0] =
        r#"{"number":18446744073709551615,"actor":1,"at":1,"facts":1,"hash":"x","kind":1,"previous":"y"}"#
            .into();
    assert!(made.told().contains(&"line 1 is not a record".to_owned()));
    let mut chain = AuditChain { records: u64::MAX - 1, head: Sha256Digest::root("job") };
    made.lines[0] = chain.append(0, AuditActor::Host, "file", json!({})).text;
    assert!(!made.told().is_empty());
}

/// The download of a task, written by the server at commit 86bf26f, before facts had types.
const OLD_DOWNLOAD: &[u8] = include_bytes!("testdata/download-of-86bf26f.zip");

#[test]
fn a_download_of_an_older_server_verifies() {
    let verdict = crate::audit::verify_zip(std::io::Cursor::new(OLD_DOWNLOAD), None).unwrap();
    assert_eq!((verdict.audit.faults, verdict.faults.len()), (vec![], 0));
    assert_eq!((verdict.audit.records, verdict.files), (9, 3));
}

#[test]
fn the_chain_of_an_older_server_is_made_again_byte_for_byte() {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(OLD_DOWNLOAD)).unwrap();
    let last = archive.len() - 1;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut archive.by_index(last).unwrap(), &mut text).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let head = read_head(lines.pop().unwrap()).unwrap();
    let mut chain = AuditChain::begin(&head.job);
    for line in lines {
        let record: Value = serde_json::from_str(line).unwrap();
        let actor: AuditActor = serde_json::from_value(record["actor"].clone()).unwrap();
        let at: sandyard_api::Timestamp = serde_json::from_value(record["at"].clone()).unwrap();
        let kind = record["kind"].as_str().unwrap();
        assert_eq!(chain.append(at.unix_ms(), actor, kind, record["facts"].clone()).text, line);
    }
    assert_eq!((chain.records, chain.head.to_string()), (head.records, head.head));
}
