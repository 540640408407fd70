//! The keeper role of the binary: confinement first, then the daemon on the spawner's and init's sockets.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{BootConfig, EGRESS_PORT, LinkTarget, MachineSize, SCRIPTS};

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
    // Programs of GTK complain about a bus for screen readers, which no sandbox has.
    ("NO_AT_BRIDGE", "1"),
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

/// The variables by which programs know how many processors to use. They ask the kernel otherwise, which names all that they may be
/// moved to. Binding a job to a few instead would have two jobs share one while others idle.
const PROCESSOR_VARIABLES: [&str; 5] =
    ["CARGO_BUILD_JOBS", "GOMAXPROCS", "OMP_NUM_THREADS", "PYTHON_CPU_COUNT", "RAYON_NUM_THREADS"];

/// Variables of the image, a `NAME=value` on each line. The image is the operator's, and read-only.
const IMAGE_ENVIRONMENT: &str = "/usr/local/etc/sandyard/environment";

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
        env: environment(config.size.as_ref()),
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

/// The environment of every process: ours, that of the machine's size, and the image's own.
fn environment(size: Option<&MachineSize>) -> BTreeMap<String, String> {
    let proxy = format!("http://{}:{EGRESS_PORT}", Ipv4Addr::LOCALHOST);
    let proxies = PROXY_VARIABLES.iter().map(|&name| (name, proxy.clone()));
    let processors = size.map(|size| size.processors().to_string());
    let threads = PROCESSOR_VARIABLES.iter().filter_map(|&name| Some((name, processors.clone()?)));
    let fixed = ENVIRONMENT.iter().map(|&(name, value)| (name, value.to_owned()));
    let ours = fixed.chain(proxies).chain(threads).map(|(name, value)| (name.to_owned(), value));
    // The image's come first, so that ours win.
    let image = std::fs::read_to_string(IMAGE_ENVIRONMENT).unwrap_or_default();
    image_variables(&image).chain(ours).collect()
}

/// The variables that an image's file names.
fn image_variables(text: &str) -> impl Iterator<Item = (String, String)> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_adds_variables_and_replaces_none_of_ours() {
        let found: BTreeMap<_, _> = image_variables("A=1=2\n\nnothing\nHOME=/x\n").collect();
        assert_eq!((found.len(), found["A"].as_str()), (2, "1=2"));
        assert_eq!(environment(None)["HOME"], "/home/agent");
        let size = MachineSize { cpu_quota_us: 250_000, memory_bytes: 1, pids: 1 };
        assert_eq!(environment(Some(&size))["OMP_NUM_THREADS"], "3");
    }
}
