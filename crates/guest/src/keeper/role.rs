//! The keeper role of the binary: confinement first, then the daemon on the spawner's and init's sockets.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{BootConfig, EGRESS_PORT, LinkTarget, SCRIPTS};

use crate::boot::{self, BootFailure, BootStep as _};
use crate::confine::{self, seccomp};
use crate::spawner::client::SpawnerClient;
use crate::sys;

use super::agent::AgentPlace;
use super::config::KeeperConfig;
use super::daemon;
use super::desktop::DesktopPlaces;
use super::dial::{SerialDial, UnixDial, VsockDial};

/// The agent's socket, beside the job's script: the job can connect to it and not replace it.
const AGENT_SOCKET: &str = "agent.sock";
/// The job's working directory.
const WORKSPACE: &str = "/workspace";
/// The environment of every process, before the job adds to it: the image's directories and nothing else.
const ENVIRONMENT: &[(&str, &str)] = &[
    // cargo's built-in git client knows fewer proxies than git.
    ("CARGO_NET_GIT_FETCH_WITH_CLI", "true"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
    ("DISPLAY", ":1"),
    ("HOME", "/home/agent"),
    ("LANG", "C.UTF-8"),
    ("LOGNAME", "agent"),
    // Node's own client reads the proxy variables only if this is set.
    ("NODE_USE_ENV_PROXY", "1"),
    ("NO_PROXY", "localhost,127.0.0.1,::1"),
    // `/run/job/bin` holds the programs of `command_hints`; programs that the job installs come before them.
    (
        "PATH",
        "/home/agent/.local/bin:/run/job/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    ),
    ("SHELL", "/bin/bash"),
    ("USER", "agent"),
    ("XDG_RUNTIME_DIR", "/run/user/1000"),
    ("no_proxy", "localhost,127.0.0.1,::1"),
];
/// The variables by which programs find the proxy; some programs know only one case.
const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "http_proxy", "https_proxy"];

/// Runs keeper. Returns only on failure: a machine is ended by its driver, its lifetime or its spawner.
pub fn run() -> Result<(), BootFailure> {
    let config = boot::take_config()?;
    let spawner = boot::take_fd("the spawner's socket", boot::SPAWNER_SOCKET_FD)?;
    let init = boot::take_fd("init's socket", boot::INIT_SOCKET_FD)?;
    sys::close_on_exec_from(3).step("descriptors", "mark close-on-exec")?;
    // Confined before the first byte from outside is read, and before the runtime starts threads, which inherit the confinement. An
    // exec makes a process dumpable again, so `seal` repeats what init did.
    confine::seal()?;
    confine::verify(config.keeper_id)?;
    seccomp::install(seccomp::FilterProfile::Keeper { host_sockets: config.link.needs_host_sockets() })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .step("runtime", "start the event loop")?;
    runtime.block_on(serve(config, spawner, init))
}

async fn serve(config: BootConfig, spawner: OwnedFd, init: OwnedFd) -> Result<(), BootFailure> {
    let session =
        getrandom::u64().map_err(|error| BootFailure::plain("random", format!("draw a number: {error}")))?;
    let processes = SpawnerClient::connect(spawner, init, session)
        .await
        .map_err(|error| BootFailure::plain("spawner", error.to_string()))?;
    let keeper = KeeperConfig {
        secret: config.secret,
        spool: config.spool,
        scripts: SCRIPTS.into(),
        workspace: WORKSPACE.into(),
        env: environment(),
        egress: Some((Ipv4Addr::LOCALHOST, EGRESS_PORT).into()),
        desktop: Some(DesktopPlaces::of_machine(Duration::from_secs(config.boot_time_s))),
        agent: Some(AgentPlace { socket: Path::new(SCRIPTS).join(AGENT_SOCKET), uid: config.agent_id }),
    };
    let processes = Arc::new(processes);
    let error = match config.link {
        LinkTarget::UnixSocket { path } => daemon::run(keeper, processes, UnixDial::new(path)).await,
        LinkTarget::VirtioSerial { path } => daemon::run(keeper, processes, SerialDial::new(path)).await,
        LinkTarget::Vsock { port } => daemon::run(keeper, processes, VsockDial::new(port)).await,
    };
    let (mut message, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    Err(BootFailure::plain("keeper", message))
}

fn environment() -> BTreeMap<String, String> {
    let proxy = format!("http://{}:{EGRESS_PORT}", Ipv4Addr::LOCALHOST);
    let proxies = PROXY_VARIABLES.iter().map(|&name| (name.to_owned(), proxy.clone()));
    ENVIRONMENT.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).chain(proxies).collect()
}
