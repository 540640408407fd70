//! Starts a sandbox to see whether a driver works: the sandbox must dial and authenticate in time, and leave nothing behind.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandyard_pipe::{HelloError, HostOffer, welcome};
use sandyard_protocol::{ErrorChain, Secret};
use tokio::time::timeout;

use crate::driver::{Driver, ImageDigest, Limits, SandboxId, SandboxSpec};
use crate::host::storage::disk::STOCK;

/// Longest time for a container to dial. A loaded machine needs tens of milliseconds.
pub(crate) const CONTAINER_DIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Lines of a guest's console that an answer shows: more than a kernel's stack trace takes after its first words.
const CONSOLE_LINES: usize = 12;
/// Longest line of these in letters.
const CONSOLE_LINE_LETTERS: usize = 160;

/// A probe start: its image, disk and time limit.
pub(crate) struct StartProbe<'a> {
    /// The driver's data directory; the workspace of the probe is made in its stock.
    pub(crate) data: &'a Path,
    pub(crate) image: ImageDigest,
    /// Size of the probe's disk, the size of blank disks if there are any.
    pub(crate) disk_mib: u64,
    /// Longest time for the guest to dial.
    pub(crate) dial_timeout: Duration,
}

impl StartProbe<'_> {
    /// Starts a sandbox, waits until its guest has answered the hello and removes it. `said` returns the guest's console
    /// output, which the answer ends with on lines of its own. A caller that gives the probe up leaves its sandbox to
    /// [`stop_trials`](crate::drivers::stop_trials).
    pub(crate) async fn run(
        self,
        driver: &dyn Driver,
        said: impl Fn(&SandboxId) -> Option<String>,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("probe: {error}");
        let token = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
        let id = SandboxId::of_trial(token);
        let workspace = self.data.join(STOCK).join(format!("new-{id}"));
        std::fs::create_dir_all(&workspace).map_err(failed)?;
        let spec = SandboxSpec {
            id: id.clone(),
            image: self.image,
            workspace: workspace.clone(),
            limits: Limits { disk_mib: self.disk_mib, ..Limits::default() },
            lifetime_s: self.dial_timeout.as_secs() * 2,
            secret: Secret::new([0; 32]),
        };
        let tried = greeted(driver, &spec, self.dial_timeout).await;
        let tried = tried.map_err(|error| error + &last_lines(&said(&id).unwrap_or_default()));
        // Stops in every case: a failed probe must leave nothing behind either.
        let stopped = driver.stop(&id).await;
        let removed = std::fs::remove_dir_all(&workspace);
        tried?;
        stopped.map_err(|error| ErrorChain(&error).to_string())?;
        removed.map_err(failed)
    }
}

/// Returns the end of a guest's console, each line below the text before it. A kernel that panics prints hundreds of lines, and the
/// last ones tell the reason.
fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let shown = lines.get(lines.len().saturating_sub(CONSOLE_LINES)..).unwrap_or_default();
    let cut = |line: &&str| line.chars().take(CONSOLE_LINE_LETTERS).collect::<String>();
    shown.iter().map(cut).map(|line| format!("\n  {line}")).collect()
}

/// Starts the sandbox and waits for the guest's hello. A link alone proves nothing: the socket of a machine
/// may accept connections although no guest ever ran.
async fn greeted(driver: &dyn Driver, spec: &SandboxSpec, dial_timeout: Duration) -> Result<(), String> {
    driver.start(spec).await.map_err(|error| ErrorChain(&error).to_string())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let offer = HostOffer {
        sandbox: spec.id.to_string(),
        secret: *spec.secret.expose(),
        epoch: 1,
        unix_ms: i64::try_from(now.as_millis()).unwrap_or_default(),
    };
    let greeting = async {
        loop {
            let link = driver.next_link(&spec.id).await.map_err(|error| ErrorChain(&error).to_string())?;
            match welcome(link, offer.clone()).await {
                // The connection ended before the guest spoke, as during a boot. The guest dials again.
                Err(HelloError::Io(_)) => {}
                answered => return answered.map(drop).map_err(|error| ErrorChain(&error).to_string()),
            }
        }
    };
    match timeout(dial_timeout, greeting).await {
        Ok(answered) => answered.map_err(|error| format!("probe: {error}")),
        Err(_) => Err("probe: it never dialled".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_of_any_length_gives_its_last_lines() {
        assert_eq!(last_lines("\n \n"), "");
        assert_eq!(last_lines("one\r\n\ntwo"), "\n  one\n  two");
        let long: String = (0..500).map(|number| format!("{number} {}\n", "x".repeat(1000))).collect();
        let shown = last_lines(&long);
        assert_eq!(shown.lines().count(), 1 + CONSOLE_LINES);
        assert!(shown.len() < 2300 && shown.contains("\n  499 x") && !shown.contains("\n  487 "), "{shown}");
    }

    #[test]
    fn only_trials_have_ids_of_trials() {
        assert!(SandboxId::of_trial(7).is_trial());
        assert_eq!(SandboxId::parse(SandboxId::of_trial(7).as_str()), Some(SandboxId::of_trial(7)));
        assert!(!SandboxId::parse("s-0123456789abcdef").unwrap().is_trial());
    }
}
