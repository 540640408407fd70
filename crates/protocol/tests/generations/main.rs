//! Holds the guest protocol to its frozen schema, so that builds of neighbouring generations understand each other.
//!
//! `schema/generation-N/shape.txt` freezes every type that crosses the wire; `samples.txt` beside it holds messages as
//! a build of that generation writes them. `UPDATE_PROTOCOL_SCHEMA=1` writes the shape of compatible changes.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step is a failed test")]

mod rules;
mod samples;
mod shape;
mod source;

use std::fs;
use std::path::PathBuf;

use rules::{Verdict, changes};
use sandyard_pipe::GENERATION;
use shape::{Flag, Line, Shape};

const UPDATE_VARIABLE: &str = "UPDATE_PROTOCOL_SCHEMA";

/// A file of a generation's schema.
fn schema_file(generation: u32, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("schema/generation-{generation}/{name}"))
}

fn frozen_shape(generation: u32) -> Option<Shape> {
    fs::read_to_string(schema_file(generation, "shape.txt")).ok().map(|text| shape::from_text(&text))
}

/// Changes that need more than is allowed, one to a line.
fn too_much(frozen: &Shape, today: &Shape, allowed: Verdict) -> String {
    let changes = changes(frozen, today).into_iter().filter(|change| change.verdict > allowed);
    changes.map(|change| format!("  {:?}: {}\n", change.verdict, change.text)).collect()
}

#[test]
fn messages_have_the_frozen_shape() {
    let today = source::shape();
    let update = std::env::var_os(UPDATE_VARIABLE).is_some();
    let frozen = frozen_shape(GENERATION);
    if let Some(frozen) = &frozen {
        let rejected = too_much(frozen, &today, Verdict::Compatible);
        assert!(rejected.is_empty(), "not within generation {GENERATION} (docs/protocol.md):\n{rejected}");
    }
    if update {
        let file = schema_file(GENERATION, "shape.txt");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, shape::to_text(&today, GENERATION)).unwrap();
    } else {
        let frozen = frozen.expect("the shape of this generation; UPDATE_PROTOCOL_SCHEMA=1 writes it");
        let changed: String =
            changes(&frozen, &today).iter().map(|change| format!("  {}\n", change.text)).collect();
        assert!(changed.is_empty(), "compatible changes; {UPDATE_VARIABLE}=1 freezes them:\n{changed}");
    }
}

/// The compiler does not notice a language that is missing in the list.
#[test]
fn the_list_of_languages_is_complete() {
    let shape = source::shape();
    let variants = shape.keys().filter(|name| name.starts_with("Language::")).count();
    assert_eq!(sandyard_protocol::Language::ALL.len(), variants);
}

#[test]
fn the_previous_generation_can_be_served() {
    let Some(previous) = frozen_shape(GENERATION - 1) else {
        assert_eq!(GENERATION, 1, "the schema of generation {} is missing", GENERATION - 1);
        return;
    };
    let rejected = too_much(&previous, &source::shape(), Verdict::NextGeneration);
    assert!(rejected.is_empty(), "generation {} can't be served:\n{rejected}", GENERATION - 1);
}

#[test]
fn a_schema_file_is_read_as_it_was_written() {
    let shape = source::shape();
    assert_eq!(shape::from_text(&shape::to_text(&shape, 1)), shape);
    assert!(shape.contains_key("Request::begin_job") && shape.contains_key("GuestHello.nonce"));
}

/// Changes one line of a small shape and returns the verdict.
fn verdict(change: impl FnOnce(&mut Shape)) -> Verdict {
    let text = "Execute = struct\nExecute.code = String\nExecute.kernel = Option<KernelId> [optional]\n\
                GuiClick = struct [strict]\nGuiClick.x = Option<i32> [optional]\n\
                Request = enum tagged by op\nRequest::ping = unit\nlimit DATA_BYTES = 64 * 1024\n";
    let frozen = shape::from_text(text);
    let mut today = frozen.clone();
    change(&mut today);
    changes(&frozen, &today).iter().map(|change| change.verdict).max().unwrap_or(Verdict::Compatible)
}

fn set(shape: &mut Shape, subject: &str, form: &str, flags: &[Flag]) {
    shape.insert(subject.into(), Line::new(form, flags.to_vec()));
}

#[test]
fn changes_that_both_sides_survive_are_compatible() {
    use Flag::{Alias, Omitted, Optional};
    for (subject, form, flags) in [
        ("Execute.note", "Option<String>", vec![Optional]),
        ("Execute.kernel", "Option<KernelId>", vec![Optional, Omitted]),
        ("Execute.code", "String", vec![Optional]),
        ("Execute.code", "String", vec![Alias("source".into())]),
        ("Snapshot", "struct", vec![]),
        ("limit SNAPSHOTS", "4", vec![]),
    ] {
        assert_eq!(
            verdict(|shape| set(shape, subject, form, &flags)),
            Verdict::Compatible,
            "{subject} {flags:?}"
        );
    }
}

#[test]
fn what_an_older_peer_does_not_know_needs_the_next_generation() {
    for (subject, form, flags) in [
        ("Request::snapshot", "unit", vec![]),
        ("GuiClick.pressure", "Option<u8>", vec![Flag::Optional]),
        ("limit DATA_BYTES", "128 * 1024", vec![]),
    ] {
        assert_eq!(verdict(|shape| set(shape, subject, form, &flags)), Verdict::NextGeneration, "{subject}");
    }
}

#[test]
fn what_an_older_peer_can_not_read_or_write_is_breaking() {
    for (subject, form, flags) in [
        ("Execute.note", "String", vec![]),
        ("Execute.code", "Vec<u8>", vec![]),
        ("Execute.code", "String", vec![Flag::Omitted]),
        ("Execute.kernel", "Option<KernelId>", vec![]),
        ("Execute", "struct", vec![Flag::Strict]),
        ("Request", "enum", vec![]),
    ] {
        assert_eq!(
            verdict(|shape| set(shape, subject, form, &flags)),
            Verdict::Breaking,
            "{subject} {flags:?}"
        );
    }
    assert_eq!(verdict(|shape| drop(shape.remove("Execute.kernel"))), Verdict::Breaking);
    assert_eq!(verdict(|shape| drop(shape.remove("Request::ping"))), Verdict::Breaking);
}
