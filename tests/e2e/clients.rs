//! Clients that others' generators make from the OpenAPI document, used against a server.

use tokio::process::Command;

use crate::origins::{finish, modules, root};
use crate::yard::Yard;

/// The document passes a validator, and openapi-python-client makes a client of it that works.
#[tokio::test]
async fn a_generated_python_client_works() {
    let Some(modules) = modules("clients").await else {
        return eprintln!("skipped: needs the clients modules (scripts/setup.sh test)");
    };
    let yard = Yard::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(modules.join("bin/python"));
    command.arg(root().join("tests/clients/openapi.py")).arg(&yard.url).current_dir(folder.path());
    finish(command).await;
}

/// The types of openapi-typescript check a program, which then works.
#[tokio::test]
async fn a_program_with_generated_typescript_types_works() {
    let Some(modules) = modules("web").await else {
        return eprintln!("skipped: needs the modules of web/ (scripts/setup.sh test)");
    };
    let yard = Yard::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(modules.join("node_modules"), folder.path().join("node_modules")).unwrap();
    for name in ["openapi.mjs", "openapi.ts"] {
        std::fs::copy(root().join("tests/clients").join(name), folder.path().join(name)).unwrap();
    }
    let mut command = Command::new("node");
    command.arg("openapi.mjs").arg(&yard.url).current_dir(folder.path());
    finish(command).await;
}
