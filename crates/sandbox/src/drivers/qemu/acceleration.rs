//! What runs the guest's code: KVM where a guest really boots on it, else the emulator.
//!
//! A host may have a KVM that boots no ordinary kernel, so one is booted. The answer is kept beside the markers, with its reason,
//! until the host, QEMU or the kernel of machines is another.

use std::fs;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::host::{self, Accelerator};
use super::{QemuDriver, Yard};
use crate::driver::{Availability, ImageDigest, Offer};
use crate::parts::trial::Trial;

/// What the operator wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acceleration {
    /// KVM if a guest boots on it, else the emulator.
    #[default]
    Auto,
    /// This one.
    Only(Accelerator),
}

/// With KVM a guest dials within a second.
const KVM_PATIENCE: Duration = Duration::from_secs(20);
/// The answer, in the driver's directory.
const FILE: &str = "acceleration.json";
/// Enough to boot with.
const TRIAL_DISK_MIB: u64 = 64;

/// What was found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chosen {
    accelerator: Accelerator,
    /// Why not KVM.
    reason: Option<String>,
    /// What it holds for.
    basis: Basis,
}

/// What an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Basis {
    boot_id: String,
    version: String,
    kernel: String,
}

impl QemuDriver {
    /// What runs the code of machines, tried if that must be found out.
    pub(super) async fn accelerator(&self, image: &ImageDigest) -> Accelerator {
        self.chosen(image).await.accelerator
    }

    /// Really starts a machine.
    pub(super) async fn tried(&self) -> Availability {
        let yard = &self.yard;
        let version = &yard.program.version;
        match yard.images.kernel() {
            Ok(Some(_)) => {}
            Ok(None) => {
                let fix = "sandyard image build --format vm";
                return Availability::missing("there is no kernel for virtual machines", fix);
            }
            Err(error) => return Availability::missing(error.to_string(), "look at the cache of images"),
        }
        let Some(image) = yard.config.images.probe_image() else {
            return Availability::untried(format!("QEMU {version}; not tried: no image yet"))
                .offered(Offer::WhenNeeded);
        };
        let chosen = self.chosen(&image).await;
        let (offer, patience) = match chosen.accelerator {
            Accelerator::Kvm => (Offer::Always, KVM_PATIENCE),
            Accelerator::Tcg => (Offer::WhenNeeded, yard.config.boot_time),
        };
        let answer = match self.boots(chosen.accelerator, image, patience).await {
            Ok(()) => Availability::usable(describe(version, &chosen)),
            Err(error) => Availability::missing(error, "run `sandyard doctor qemu`"),
        };
        answer.offered(offer)
    }

    async fn chosen(&self, image: &ImageDigest) -> Chosen {
        let basis = self.yard.basis();
        if let Acceleration::Only(accelerator) = self.acceleration {
            return Chosen { accelerator, reason: None, basis };
        }
        // Held while a machine is tried, so that one trial serves all who ask.
        let mut known = self.yard.chosen.lock().await;
        if let Some(chosen) = known.as_ref().filter(|chosen| chosen.basis == basis) {
            return chosen.clone();
        }
        let chosen = match self.yard.remembered(&basis) {
            Some(chosen) => chosen,
            None => self.find_out(image.clone(), basis).await,
        };
        // The first answer is what this process says of itself; only another kernel of machines can change it.
        let _ = self.yard.runtime.set(chosen.accelerator);
        *known = Some(chosen.clone());
        chosen
    }

    async fn find_out(&self, image: ImageDigest, basis: Basis) -> Chosen {
        let reason = match host::no_kvm() {
            Some(reason) => Some(reason),
            None => self
                .boots(Accelerator::Kvm, image, KVM_PATIENCE)
                .await
                .err()
                .map(|error| format!("no guest boots on /dev/kvm: {error}")),
        };
        let accelerator = if reason.is_none() { Accelerator::Kvm } else { Accelerator::Tcg };
        let chosen = Chosen { accelerator, reason, basis };
        if let Err(error) = self.yard.remember(&chosen) {
            tracing::warn!(%error, "can't keep what was found out about KVM; the next server tries again");
        }
        chosen
    }

    async fn boots(
        &self,
        accelerator: Accelerator,
        image: ImageDigest,
        patience: Duration,
    ) -> Result<(), String> {
        let driver = Self { yard: self.yard.clone(), acceleration: Acceleration::Only(accelerator) };
        let data = &self.yard.config.data;
        let trial = Trial { data, image, disk_mib: TRIAL_DISK_MIB, patience };
        trial.run(&driver, |id| self.console(id)).await
    }
}

impl Yard {
    fn basis(&self) -> Basis {
        let kernel = self.images.kernel().ok().flatten();
        Basis {
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            version: self.program.version.clone(),
            kernel: kernel.map(|kernel| kernel.digest.to_string()).unwrap_or_default(),
        }
    }

    fn remembered(&self, basis: &Basis) -> Option<Chosen> {
        let chosen: Chosen = serde_json::from_slice(&fs::read(self.config.data.join(FILE)).ok()?).ok()?;
        (chosen.basis == *basis).then_some(chosen)
    }

    fn remember(&self, chosen: &Chosen) -> io::Result<()> {
        let (file, temporary) = (self.config.data.join(FILE), self.config.data.join("acceleration.json.new"));
        fs::write(&temporary, serde_json::to_vec(chosen)?)?;
        fs::rename(temporary, file)
    }
}

fn describe(version: &str, chosen: &Chosen) -> String {
    match (chosen.accelerator, &chosen.reason) {
        (Accelerator::Kvm, _) => format!("QEMU {version} with KVM"),
        (Accelerator::Tcg, None) => format!("QEMU {version}, emulated"),
        (Accelerator::Tcg, Some(reason)) => format!("QEMU {version}, emulated: {reason}"),
    }
}
