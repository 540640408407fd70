//! One fake machine: a keeper task on local processes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandyard_guest::keeper::agent::AgentPlace;
use sandyard_guest::keeper::{self, KeeperConfig};
use sandyard_guest::process_host::ProcessHost;
use sandyard_guest::process_host::local::LocalProcesses;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::faults::Faults;
use super::link::FakeLinks;
use sandyard_sandbox::driver::SandboxSpec;

/// Name of the loop's socket in the machine's folder.
const AGENT_SOCKET: &str = "agent.sock";

#[derive(Debug)]
pub(super) struct FakeMachine {
    config: KeeperConfig,
    folder: PathBuf,
    processes: Arc<LocalProcesses>,
    links: FakeLinks,
    keeper: Mutex<Option<JoinHandle<()>>>,
    dead: watch::Sender<bool>,
}

impl FakeMachine {
    /// Makes the machine's folders and starts its keeper.
    pub(super) fn start(
        spec: &SandboxSpec,
        world: &Path,
        faults: &Faults,
        links: FakeLinks,
    ) -> io::Result<Arc<Self>> {
        let folder = world.join(spec.id.as_str());
        let workspace = spec.workspace.join("files");
        let (spool, scripts) = (folder.join("spool"), folder.join("scripts"));
        for path in [&workspace, &spool, &scripts] {
            std::fs::create_dir_all(path)?;
        }
        let env = environment(&workspace);
        let machine = Arc::new(Self {
            config: KeeperConfig {
                secret: spec.secret.clone(),
                spool,
                scripts,
                workspace,
                env,
                egress: None,
                desktop: None,
                agent: Some(AgentPlace {
                    socket: folder.join(AGENT_SOCKET),
                    uid: rustix::process::geteuid().as_raw(),
                }),
            },
            folder,
            processes: Arc::new(LocalProcesses::default()),
            links,
            keeper: Mutex::default(),
            dead: watch::Sender::new(false),
        });
        if !faults.mute {
            machine.restart_keeper();
        }
        let (late, lifetime) = (Arc::downgrade(&machine), Duration::from_secs(spec.lifetime_s));
        tokio::spawn(async move {
            tokio::time::sleep(lifetime).await;
            if let Some(machine) = late.upgrade() {
                machine.kill().await;
            }
        });
        Ok(machine)
    }

    /// Starts keeper, in place of the one that ran.
    pub(super) fn restart_keeper(&self) {
        let processes: Arc<dyn ProcessHost> = Arc::new(self.processes.for_next_keeper());
        let (config, links) = (self.config.clone(), self.links.clone());
        let mut keeper = self.keeper.lock();
        let old = keeper.take();
        *keeper = Some(tokio::spawn(async move {
            if let Some(old) = old {
                old.abort();
                let _ = old.await;
            }
            let error = keeper::run(config, processes, links).await;
            tracing::error!(%error, "a fake keeper stopped");
        }));
    }

    pub(super) fn links(&self) -> &FakeLinks {
        &self.links
    }

    pub(super) fn is_alive(&self) -> bool {
        !*self.dead.borrow()
    }

    /// Returns when the machine is dead.
    pub(super) async fn dead(&self) {
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    pub(super) async fn kill(&self) {
        let keeper = self.keeper.lock().take();
        if let Some(keeper) = keeper {
            keeper.abort();
            let _ = keeper.await;
        }
        let _ = self.processes.kill_everything().await;
        self.links.cut();
        self.dead.send_replace(true);
    }

    pub(super) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Drop for FakeMachine {
    /// Ends keeper with its world.
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.lock().take() {
            keeper.abort();
        }
    }
}

fn environment(workspace: &Path) -> BTreeMap<String, String> {
    let home = workspace.display().to_string();
    // The loop of tasks was built for the native driver, and runs here as well.
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", env!("SANDYARD_GUEST_FOLDER"));
    [("PATH", path.as_str()), ("HOME", &home), ("LANG", "C.UTF-8")]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
