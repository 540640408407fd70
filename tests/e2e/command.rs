//! The command, as a person calls it on a yard of a test.

use std::process::Stdio;

use tokio::process::Command;

use crate::yard::PATIENCE;

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Told {
    /// Asserts the exit code and returns the output.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// The command at an address, with these variables.
pub(crate) async fn sandyard(url: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Told {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandyard"));
    command
        .args(arguments)
        .env("SANDYARD_URL", url)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = ended.unwrap_or_else(|_| panic!("{arguments:?} does not end")).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Told { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}
