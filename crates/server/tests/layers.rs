//! The layers of the server, lowest first. `lib.rs` says what each is for. A folder stands behind its parts: its façade may import all.

use std::path::Path;

const LAYERS: &[&[&str]] = &[
    &["clock", "disk", "fail_points", "json_scan", "key_file", "memory", "trust"],
    &["audit"],
    &["job"],
    &["auth"],
    &[
        "store::columns",
        "store::errors",
        "store::rows",
        "store::signer",
        "store::watch",
        "store::write_weight",
    ],
    &["store::contract", "store::sealing", "store::values", "store::yard_lock", "store::copy_side"],
    &["store::audit_lines", "store::rules"],
    &["store::postgres", "store::sqlite"],
    &["store::copying"],
    &["store", "blobs"],
    &["output", "artifacts", "recall", "drivers"],
    &["gateways::owner_audit", "gateways::model"],
    &["gateways::egress", "gateways::journal"],
    &["gateways"],
    &["config"],
    &["yard"],
    &["lifecycle::guest_scripts", "lifecycle::linking", "lifecycle::outcome", "lifecycle::question_timeout"],
    &[
        "lifecycle::deadlines",
        "lifecycle::egress_log",
        "lifecycle::observing",
        "lifecycle::screen_recording",
        "lifecycle::start_failure",
        "lifecycle::task_gateways",
        "lifecycle::usage_series",
    ],
    &["lifecycle::adopting", "lifecycle::making", "lifecycle::owner", "lifecycle::preparing"],
    &["lifecycle::session", "lifecycle::start_tree", "lifecycle::starting"],
    &["lifecycle::closing", "lifecycle::explaining", "lifecycle::patch", "lifecycle::restarting"],
    &["lifecycle::finishing", "lifecycle::following"],
    &["lifecycle::disk_watch", "lifecycle::leases", "lifecycle::retention", "lifecycle::retention_clock"],
    &["lifecycle::reconciler"],
    &["lifecycle::queueing"],
    &["lifecycle"],
    &[
        "app::brief_cache",
        "app::errors",
        "app::model",
        "app::open_tickets",
        "app::owner_cache",
        "app::yard_task",
    ],
    &["app::running_yard"],
    &["app::access", "app::brief"],
    &[
        "app::audit",
        "app::download",
        "app::drivers",
        "app::events",
        "app::explanation",
        "app::health",
        "app::logs",
        "app::machine",
        "app::open",
        "app::recall",
        "app::recording",
        "app::request",
        "app::screenshot",
        "app::stats",
        "app::status",
        "app::terminal_cast",
        "app::tickets",
    ],
    &["app::archive", "app::delete", "app::extend", "app::reply", "app::schedule"],
    &["app"],
    &[
        "http::counters",
        "http::limits",
        "http::proxy::lanes",
        "http::request::conditions",
        "http::request_ids",
    ],
    &["http::config", "http::response"],
    &["http::request"],
    &["http::audit_layer::actions", "http::state"],
    &["http::rules"],
    &["http::audit_layer", "http::pages", "http::proxy"],
    &["http::gate"],
    &["http::mcp", "http::resources"],
    &["http::routes"],
    &["http::openapi", "http::openapi_shapes", "http::service"],
    &["http::serve"],
    &["http"],
];

#[test]
fn every_module_imports_downwards_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if let Err(violations) = sandyard_layers::check(&source, LAYERS) {
        panic!("{}", violations.join("\n"));
    }
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(sandyard_layers::check_files(&source, ""), Ok(()));
}
