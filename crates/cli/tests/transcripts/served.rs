//! A served yard and a way to call the command on it.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use sandyard_server::app::Yard;
use sandyard_server::auth::{AccessRules, KeyStore};
use sandyard_server::http::{HttpConfig, ServeLimits, serve_tcp};
use sandyard_testkit::TestYard;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Every command of a test ends by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) home: TempDir,
    yard: Yard,
    /// What the yard needs to live.
    _keeps: Box<dyn Send>,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    fn new(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts the exit code and returns the output.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Served {
    pub(crate) async fn start() -> Self {
        let yard = TestYard::new().await.unwrap();
        Self::of(yard.yard.clone(), Box::new(yard)).await
    }

    /// Serves a yard that lives as long as these things.
    pub(crate) async fn of(yard: Yard, keeps: Box<dyn Send>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (shutdown, server) = serve(&yard, listener);
        Self { url, home: tempfile::tempdir().unwrap(), yard, _keeps: keeps, shutdown, server }
    }

    /// Ends all connections and refuses new ones.
    pub(crate) async fn stop(&mut self) {
        self.shutdown.cancel();
        let stopped = tokio::time::timeout(PATIENCE, &mut self.server).await;
        stopped.expect("the server does not stop").unwrap();
    }

    /// Serves again at the same address.
    pub(crate) async fn serve_again(&mut self) {
        let listener = TcpListener::bind(self.url.trim_start_matches("http://")).await.unwrap();
        (self.shutdown, self.server) = serve(&self.yard, listener);
    }

    /// The command with an environment of its own.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(&self.url, self.home.path(), arguments)
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments)).await
    }

    /// A job that lives until it is ended.
    pub(crate) async fn session(&self) -> String {
        let id = self.run(&["run", "--detach", "--kind", "session"]).await.expect(0).out.trim().to_owned();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.run(&["status", "--json", &id]).await.json()["sandbox"] != "live" {
            assert!(tokio::time::Instant::now() < deadline, "the session does not come to life");
        }
        id
    }
}

fn serve(yard: &Yard, listener: TcpListener) -> (CancellationToken, JoinHandle<()>) {
    let shutdown = CancellationToken::new();
    let config = HttpConfig {
        yard: yard.clone(),
        access: AccessRules::new("127.0.0.1", KeyStore::default()),
        limits: ServeLimits::default(),
        version: "0.0.0".to_owned(),
        settings: Vec::new(),
        shutdown: shutdown.clone(),
    };
    (shutdown, tokio::spawn(serve_tcp(listener, config)))
}

pub(crate) fn command(url: &str, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandyard"));
    command
        .args(arguments)
        .current_dir(home)
        .env_clear()
        .envs([
            ("HOME", home),
            ("SANDYARD_DATA", &home.join("data")),
            ("SANDYARD_CACHE", &home.join("cache")),
        ])
        .env("SANDYARD_URL", url)
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

pub(crate) async fn said(mut command: Command) -> Said {
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the command does not end");
    Said::new(output.unwrap())
}
