//! The warden's process: opens the drivers and builds the images as root, for a server that is not.
//!
//! Standard input is its socket. The first packet is the plan, which the server sent while it was root; from then on the server is
//! not trusted. The process ends when the socket closes, and leaves the sandboxes alone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::Limits;
use sandyard_sandbox::drivers::stop_trials;
use sandyard_sandbox::image::ArchiveSnapshot;
use sandyard_sandbox::warden::{ServerUser, WardenService, WorkspacePlaces, receive_plan, refuse};
use serde::{Deserialize, Serialize};

use crate::config::{DriverSettings, ImageChoice, Surroundings};
use crate::drivers::{self, DriverPlan};
use crate::images::YardImages;
use crate::log;
use crate::machine;
use crate::runtime;
use crate::trial::{self, TrialHost};
use crate::ui::Ui;

/// The hidden command by which this program becomes a warden.
pub(crate) const WARDEN_COMMAND: &str = "warden";

/// All that a warden must know of its yard.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WardenPlan {
    pub(crate) data: PathBuf,
    pub(crate) cache: PathBuf,
    /// Number of prepared control groups and blank disks.
    pub(crate) pool: usize,
    /// Default disk size of a sandbox.
    pub(crate) disk_mib: u64,
    /// The only driver to open, or all.
    pub(crate) driver: Option<String>,
    pub(crate) drivers: DriverSettings,
    /// Images to build.
    pub(crate) images: ImageChoice,
    /// Additional Debian packages in images.
    pub(crate) packages: Vec<String>,
    /// State of Debian's archive that images are built from.
    pub(crate) snapshot: Option<ArchiveSnapshot>,
    /// Highest limits of a sandbox.
    pub(crate) greatest_limits: Limits,
    pub(crate) server: ServerUser,
    pub(crate) log: String,
    pub(crate) log_json: bool,
}

/// Serves as the warden on standard input.
pub(crate) fn main() -> ExitCode {
    match prepare().and_then(|(plan, socket, lock)| {
        log::to_stderr(&plan.log, plan.log_json);
        let served = runtime::block_on(serve(plan, socket));
        // Last: the next server must find the drivers closed.
        drop(lock);
        served
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the privileged process ends");
            ExitCode::FAILURE
        }
    }
}

/// Leaves the server's terminal and folder, and takes the plan.
fn prepare() -> io::Result<(WardenPlan, OwnedFd, OwnedFd)> {
    // A signal of the terminal is for the server, which then closes the socket. setsid fails only for the leader of a process
    // group, which has no terminal to lose.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/")?;
    // Each sandbox takes a socket and two descriptors of its process.
    machine::raise_open_files();
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let (plan, lock) = receive_plan(socket.as_fd())?;
    Ok((plan, socket, lock))
}

async fn serve(plan: WardenPlan, socket: OwnedFd) -> io::Result<()> {
    let surroundings = Surroundings::read();
    let images = YardImages::new(&plan.cache, plan.packages, plan.snapshot);
    let host = TrialHost { cache: &plan.cache, images: Arc::new(images.clone()), settings: &plan.drivers };
    trial::remove_abandoned(&std::env::temp_dir(), &host).await;
    let opened = drivers::open(
        &DriverPlan {
            data: &plan.data,
            cache: &plan.cache,
            pool: plan.pool,
            disk_mib: plan.disk_mib,
            images: Arc::new(images.clone()),
            settings: &plan.drivers,
        },
        plan.driver.as_deref(),
    );
    let drivers = match opened {
        Ok(drivers) => drivers,
        Err(error) => return refuse(socket, ErrorChain(&error).to_string()).await,
    };
    let ui = Ui::detect(surroundings.colours());
    let preparation = images.prepare(plan.images, &surroundings, ui);
    let service = WardenService {
        drivers: drivers.clone(),
        places: WorkspacePlaces::of_yard(&plan.data, plan.server),
        greatest_limits: plan.greatest_limits,
        images: images.states(),
    };
    let served = service.serve(socket).await;
    // The server is gone, and with it the calls by which it tried drivers.
    let _: bool = stop_trials(&drivers).await;
    drop(drivers);
    drop(tokio::task::spawn_blocking(|| preparation.end()).await);
    served
}
