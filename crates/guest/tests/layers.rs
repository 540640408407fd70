//! The layers of this crate, lowest first: a module imports from its own layer and from those below.

use std::path::Path;

const LAYERS: &[&[&str]] = &[
    // Foundations of all roles.
    &["limits", "sys"],
    &["packets"],
    &["boot", "process_host"],
    &["confine"],
    // The spawner, and keeper's way to it and to init.
    &["init::messages", "spawner"],
    &["spawner::client"],
    // Keeper: foundations, things shared by its services, services, the job, the whole.
    &[
        "keeper::clock",
        "keeper::exits",
        "keeper::host_link",
        "keeper::scripts",
        "keeper::spool",
        "keeper::tasks",
    ],
    &["keeper::activity", "keeper::command_hints", "keeper::dial", "keeper::environment", "keeper::events"],
    &["keeper::core", "keeper::output", "keeper::request_keys", "keeper::stream"],
    &["keeper::workers"],
    &["keeper::files", "keeper::processes"],
    &["keeper::job::state", "keeper::ports", "keeper::workspace_changes"],
    &["keeper::desktop", "keeper::event_stream", "keeper::kernels"],
    &["keeper::job"],
    &["keeper::dispatch"],
    &["keeper::agent", "keeper::egress", "keeper::link"],
    &["keeper::config"],
    &["keeper::assembly"],
    &["keeper::daemon"],
    &["keeper::role"],
    &["keeper"],
    // The roles that start the others, and the double of the spawner, which runs a role of keeper's on a thread.
    &["init", "machine", "process_host::local"],
];

#[test]
fn modules_import_downwards_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(sandyard_layers::check(&source, LAYERS), Ok(()));
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(sandyard_layers::check_files(&source, ""), Ok(()));
}
