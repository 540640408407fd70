//! End to end: the real binary, real sandboxes of the `native` driver, HTTP as any client speaks it.
//!
//! Each test has its own yard: data folder, port and control groups. What a test starts it ends, also when it fails.
//! Needs root and a built base image (`make test` sees to both).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed step is a failed test"
)]

mod abuse;
mod adoption;
mod audit;
mod chaos;
mod clients;
mod command;
mod console;
mod desktop;
mod desktop_soak;
mod desktop_view;
mod disks;
mod doctor;
mod downloads;
mod drivers;
mod egress;
#[path = "../../crates/conformance/tests/docker_yard/engine.rs"]
#[expect(dead_code, reason = "the driver's own tests do more to an engine")]
mod engine;
mod examples;
mod explanations;
mod faults;
mod finishing;
mod first_calls;
mod flavours;
mod floods;
mod forms;
mod git_server;
mod kernels;
mod mcp;
mod memory;
mod model_trouble;
mod notebooks;
mod origins;
mod privileges;
mod processes;
mod provider;
mod real_model;
mod recording;
mod refusals;
mod screen_recording;
mod secure_links;
mod small_disk;
mod smoke;
mod start_from;
mod task;
mod task_keys;
mod task_kills;
mod tools;
mod yard;
