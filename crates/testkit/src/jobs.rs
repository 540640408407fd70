//! Jobs that tests schedule.

use std::collections::BTreeMap;

use sandyard_server::app::{Floor, JobKind, NewJob, RequestedLimits, TaskOptions};

/// Creates a shell job with small limits.
pub fn shell(code: &str) -> NewJob {
    NewJob {
        kind: JobKind::Shell,
        code: code.to_owned(),
        name: None,
        files: Vec::new(),
        env: BTreeMap::new(),
        isolation: Floor::Any,
        limits: RequestedLimits { memory_mib: Some(64), timeout_s: Some(60), ..RequestedLimits::default() },
        keep: false,
        egress: Vec::new(),
        git: None,
        task: TaskOptions::default(),
        flavour: None,
    }
}

/// Creates a task in plain words.
pub fn task(words: &str) -> NewJob {
    NewJob { kind: JobKind::Task, ..shell(words) }
}

/// Creates a session job: a sandbox that stays open.
pub fn session() -> NewJob {
    NewJob { kind: JobKind::Session, ..shell("") }
}
