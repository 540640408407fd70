//! `docs/seccomp.md`, written from the table: the file can't say anything else than the filter does.

use std::path::Path;

use super::outer::{OuterRule, outer_rules};
use super::table::{CallRow, CallRule, CallUsers, CaseAnswer, rows};

const HEAD: &str = "\
# The system-call filter

One table decides about each system call (`crates/sys/src/seccomp/table.rs`), and every driver uses it. This page shows the
table; a test compares the two.

The guest builds three filters from it and installs them itself, whichever driver starts the machine: the job's, and narrower ones
for keeper and init. In all of them

- a foreign architecture (32-bit code, `int 0x80`) kills the process, and x32 numbers are refused;
- a number that the table does not know fails with ENOSYS, as with an older kernel, so that programs fall back;
- a known call that is refused fails with EPERM;
- an argument is compared in the 32 bits that the kernel reads, a pointer in all 64.

Where a driver's runtime accepts a filter (OCI runtimes, Docker, Podman), a fourth one surrounds the whole machine, in the runtime's
format and from the same rows: it allows every call that one of the three allows, and the calls that init and spawner make before they
install theirs (last column). Unknown calls fail with ENOSYS; conditions that libseccomp can't express are left to the inner filters.

The server on the host, which is no root process, has init's filter too.

| calls | for | get | why | around |
|---|---|---|---|---|
";

fn document() -> String {
    rows().fold(HEAD.to_owned(), |text, row| text + &line(row))
}

fn line(row: &CallRow) -> String {
    let names: Vec<String> =
        row.calls.iter().map(|(name, _)| format!("`{}`", name.trim_start_matches("SYS_"))).collect();
    let whom = match row.who {
        CallUsers::Everyone => "job, keeper, init",
        CallUsers::JobAndInit => "job, init",
        CallUsers::Job => "job",
    };
    let get = match row.rule {
        CallRule::Allow => "allowed",
        CallRule::Refuse => "EPERM",
        CallRule::Absent => "ENOSYS",
        CallRule::Guarded(guard) if guard.iter().all(|case| case.answer == CaseAnswer::Ignore) => {
            "success, without effect"
        }
        CallRule::Guarded(_) => "allowed under a condition",
    };
    format!("| {} | {whom} | {get} | {} | {} |\n", names.join(" "), row.why, around(row))
}

/// What the row's calls get around the machine; those that get something else than the first are named.
fn around(row: &CallRow) -> String {
    let word = |name: &str| match outer_rules().find(|(found, _)| *found == name) {
        Some((_, OuterRule::Allow)) => "allowed",
        Some((_, OuterRule::Guarded(_))) => "same condition",
        Some((_, OuterRule::Refuse)) => "EPERM",
        Some((_, OuterRule::Absent)) | None => "ENOSYS",
    };
    let mut words: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, _) in row.calls {
        let name = name.trim_start_matches("SYS_");
        let said = word(name);
        match words.iter_mut().find(|(known, _)| *known == said) {
            Some((_, names)) => names.push(format!("`{name}`")),
            None => words.push((said, vec![format!("`{name}`")])),
        }
    }
    match words.as_slice() {
        [(only, _)] => (*only).to_owned(),
        several => several
            .iter()
            .map(|(said, names)| format!("{said}: {}", names.join(" ")))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// Set `SANDYARD_UPDATE_DOCS` to write the page anew.
#[test]
fn the_page_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/seccomp.md");
    let expected = document();
    if std::env::var_os("SANDYARD_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == expected,
        "docs/seccomp.md is not what the table says: SANDYARD_UPDATE_DOCS=1 writes it"
    );
}
