//! Contents as kernels send them, and as nobody should.

use proptest::prelude::*;
use serde_json::json;

use super::super::message::{Signer, decode, encode};
use super::super::zmtp::Multipart;
use super::*;

fn incoming(kind: &str, content: &[u8], left_out: u64) -> Incoming {
    let signer = Signer::new("k").unwrap();
    let mut frames = encode(&signer, "s", "m", kind, &json!({})).unwrap();
    // Unsigned content passes only where something was left out; otherwise it is signed anew.
    if left_out == 0 {
        let value = serde_json::from_slice::<Value>(content).unwrap();
        frames = encode(&signer, "s", "m", kind, &value).unwrap();
    } else {
        frames[5] = content.to_vec();
    }
    decode(&signer, Multipart::received(frames, left_out)).unwrap()
}

fn published(kind: &str, content: &serde_json::Value) -> Published {
    Published::read(&incoming(kind, content.to_string().as_bytes(), 0))
}

#[test]
fn what_kernels_say_is_understood() {
    assert!(matches!(
        published("stream", &json!({"name": "stderr", "text": "x"})),
        Published::Text(OutputStream::Stderr, text) if text == "x"
    ));
    let shown = published(
        "execute_result",
        &json!({"data": {"text/plain": "7", "image/png": "aGk="}, "metadata": {}}),
    );
    assert!(matches!(shown, Published::Output(OutputKind::Result, bundle) if bundle.text() == Some("7")));
    assert!(matches!(published("status", &json!({"execution_state": "idle"})), Published::Idle));
    assert!(matches!(published("status", &json!({"execution_state": "busy"})), Published::Other));
    assert!(matches!(published("execute_input", &json!({"execution_count": 4})), Published::Input(Some(4))));
    let error =
        published("error", &json!({"ename": "E", "evalue": "v", "traceback": ["\u{1b}[31mred\u{1b}[0m"]}));
    assert!(matches!(error, Published::Error(error) if error.traceback == ["red"] && error.name == "E"));
}

#[test]
fn l17_lists_and_maps_have_an_end() {
    let many: Vec<String> = (0..100_000).map(|number| format!("line {number}")).collect();
    let Published::Error(error) = published("error", &json!({"ename": "E", "traceback": many})) else {
        panic!()
    };
    assert!(error.traceback.len() <= TRACEBACK_LINES);
    let long = json!({"ename": "E".repeat(1_000_000), "evalue": "v".repeat(1_000_000), "traceback": ["t".repeat(1_000_000)]});
    let Published::Error(error) = published("error", &long) else { panic!() };
    let bytes = error.name.len() + error.value.len() + error.traceback.iter().map(String::len).sum::<usize>();
    assert!(bytes <= ERROR_BYTES, "{bytes}");
    let forms: serde_json::Map<_, _> =
        (0..10_000).map(|number| (format!("x/{number}"), json!("v"))).collect();
    let Published::Output(_, bundle) = published("display_data", &json!({"data": forms})) else { panic!() };
    assert!(bundle.0.len() <= OUTPUT_PARTS);
}

#[test]
fn l17_a_large_output_is_read_for_its_texts() {
    let tree: Vec<u8> = vec![0; 200_000];
    let large = json!({"data": {"text/plain": "small", "application/json": tree, "image/png": "x".repeat(300_000), "x/y": null}});
    let Published::Output(_, bundle) = published("display_data", &large) else { panic!() };
    let mimes: Vec<_> = bundle.0.iter().map(|(mime, _)| mime.as_str()).collect();
    assert_eq!(mimes, ["image/png", "text/plain"]);
}

#[test]
fn l17_wrong_types_are_nothing() {
    for content in
        [json!([]), json!(3), json!({"name": 3, "text": []}), json!({"data": 3}), json!({"traceback": "x"})]
    {
        for kind in ["stream", "display_data", "error", "status", "execute_input", "comm_open", ""] {
            let _ = published(kind, &content);
        }
    }
    assert!(matches!(published("stream", &json!({"name": [], "text": {}})), Published::Other));
}

#[test]
fn the_head_of_a_text_that_is_too_long_is_shown() {
    let head = br#"{"name": "stdout", "text": "one\ntw\u00"#;
    let message = incoming("stream", head, 1234);
    let Published::Text(OutputStream::Stdout, text) = Published::read(&message) else { panic!() };
    assert!(text.starts_with("one\ntw") && text.contains("1234 bytes left out"), "{text}");
    assert!(matches!(Published::read(&incoming("display_data", b"{", 9)), Published::TooLarge(9)));
}

#[test]
fn escapes_are_taken_out() {
    assert_eq!(without_escapes("a\u{1b}[1;31mb\u{1b}[0mc\u{1b}]8;;http://x\u{7}d\u{1b}"), "abcd");
}

proptest! {
    #[test]
    fn l17_cut_texts_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,40}") {
        let _ = Published::read(&incoming("stream", &bytes, 1));
        let mut head = b"{\"name\": \"stdout\", \"text\": \"".to_vec();
        head.extend_from_slice(text.as_bytes());
        let _ = Published::read(&incoming("stream", &head, 1));
        let stripped = without_escapes(&text);
        prop_assert!(!stripped.contains(char::from(27)));
    }
}
