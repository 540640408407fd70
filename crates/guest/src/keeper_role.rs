//! The keeper role of the binary: confinement first, then the daemon (`keeper`) on the spawner's and init's sockets.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use sandyard_protocol::{BootConfig, EGRESS_PORT, LinkTarget, SCRIPTS};

use crate::boot::{self, BootFailure, Step as _};
use crate::confine::{self, seccomp};
use crate::keeper::agent::AgentPlace;
use crate::keeper::desktop::DesktopPlaces;
use crate::keeper::{self, KeeperConfig, SerialDial, UnixDial, VsockDial};
use crate::spawner_client::SpawnerClient;
use crate::sys;

/// The loop's socket, beside the job's script: the job can reach it and not replace it.
const AGENT_SOCKET: &str = "agent.sock";
/// Where the job works.
const WORKSPACE: &str = "/workspace";
/// The environment of everything that runs, before the job adds to it: the image's places and nothing else.
const ENVIRONMENT: &[(&str, &str)] = &[
    // cargo's own client of git knows fewer proxies than git.
    ("CARGO_NET_GIT_FETCH_WITH_CLI", "true"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
    ("DISPLAY", ":1"),
    ("HOME", "/home/agent"),
    ("LANG", "C.UTF-8"),
    ("LOGNAME", "agent"),
    // Node's own client looks at the proxy's variables only when told to.
    ("NODE_USE_ENV_PROXY", "1"),
    ("NO_PROXY", "localhost,127.0.0.1,::1"),
    // Keeper's own folder holds what explains itself (`keeper/stand_ins`); what the job installs comes before it.
    (
        "PATH",
        "/home/agent/.local/bin:/run/job/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    ),
    ("SHELL", "/bin/bash"),
    ("USER", "agent"),
    ("XDG_RUNTIME_DIR", "/run/user/1000"),
    ("no_proxy", "localhost,127.0.0.1,::1"),
];
/// What programs read to find the proxy; some know only one case.
const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "http_proxy", "https_proxy"];

/// The whole life of a keeper. It never returns well: a machine ends by its driver, its lifetime or its spawner.
pub fn run() -> Result<(), BootFailure> {
    let config = boot::take_config()?;
    let spawner = boot::take_fd("the spawner's socket", boot::SPAWNER_SOCKET_FD)?;
    let init = boot::take_fd("init's socket", boot::INIT_SOCKET_FD)?;
    sys::close_on_exec_from(3).step("descriptors", "mark close-on-exec")?;
    // Before anything of the pipe is touched. Threads that come later inherit it.
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
        desktop: Some(DesktopPlaces::default()),
        agent: Some(AgentPlace { socket: Path::new(SCRIPTS).join(AGENT_SOCKET), uid: config.agent_id }),
    };
    let processes = Arc::new(processes);
    let error = match config.link {
        LinkTarget::UnixSocket { path } => keeper::run(keeper, processes, UnixDial::new(path)).await,
        LinkTarget::VirtioSerial { path } => keeper::run(keeper, processes, SerialDial::new(path)).await,
        LinkTarget::Vsock { port } => keeper::run(keeper, processes, VsockDial::new(port)).await,
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
