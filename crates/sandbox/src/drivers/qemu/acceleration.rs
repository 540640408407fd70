//! Chooses the accelerator: KVM where a guest boots on it, else the emulator.
//!
//! A host may have a KVM that boots no ordinary kernel, so the driver boots one. The answer is stored beside
//! the markers, with its reason, until the host, QEMU or the kernel of machines changes.

use std::fs;
use std::io;
use std::time::Duration;

use super::host::{self, Acceleration, Accelerator, ChoiceBasis, ChosenAccelerator};
use super::state::{QemuDriver, QemuState};
use crate::driver::{Availability, ImageDigest, Offer};
use crate::host::start_probe::StartProbe;

/// Longest boot of the probe with KVM, with which a guest dials within a second.
const KVM_TIMEOUT: Duration = Duration::from_secs(20);
/// Remedy for a machine that does not dial.
const UNBOOTABLE: &str = "read what the machine printed; on a slow host raise SANDYARD_QEMU_BOOT_TIME_S, otherwise build the \
    kernel again: sandyard image build --format vm";
/// Name of the file with the answer, in the driver's directory.
const FILE: &str = "acceleration.json";
/// Size of the probe's disk, enough to boot with.
const PROBE_DISK_MIB: u64 = 64;

impl QemuDriver {
    /// Returns the accelerator; boots a machine if it is not known.
    pub(super) async fn accelerator(&self, image: &ImageDigest) -> Accelerator {
        self.chosen(image).await.accelerator
    }

    pub(super) async fn tried(&self) -> Availability {
        let state = &self.state;
        let version = &state.program.version;
        match state.images.kernel() {
            Ok(Some(_)) => {}
            Ok(None) => {
                let fix = "sandyard image build --format vm";
                return Availability::missing("there is no kernel for virtual machines", fix);
            }
            Err(error) => return Availability::missing(error.to_string(), "look at the cache of images"),
        }
        let Some(image) = state.config.images.probe_image() else {
            return Availability::untried(format!("QEMU {version}; not tried: no image yet"))
                .offered(Offer::WhenNeeded);
        };
        let chosen = self.chosen(&image).await;
        let (offer, dial_timeout) = match chosen.accelerator {
            Accelerator::Kvm => (Offer::Always, KVM_TIMEOUT),
            Accelerator::Tcg => (Offer::WhenNeeded, state.config.boot_time),
        };
        let answer = match self.boots(chosen.accelerator, image, dial_timeout).await {
            Ok(()) => Availability::usable(describe(version, &chosen)),
            Err(error) => Availability::missing(error, UNBOOTABLE),
        };
        answer.offered(offer)
    }

    async fn chosen(&self, image: &ImageDigest) -> ChosenAccelerator {
        let basis = self.state.basis();
        if let Acceleration::Only(accelerator) = self.acceleration {
            return ChosenAccelerator { accelerator, reason: None, basis };
        }
        // Held during the probe, so that one probe serves all callers.
        let mut known = self.state.chosen.lock().await;
        if let Some(chosen) = known.as_ref().filter(|chosen| chosen.basis == basis) {
            return chosen.clone();
        }
        let chosen = match self.state.remembered(&basis) {
            Some(chosen) => chosen,
            None => self.find_out(image.clone(), basis).await,
        };
        // `set` keeps the first value: the reported accelerator stays the same for the life of the process.
        let _ = self.state.runtime.set(chosen.accelerator);
        *known = Some(chosen.clone());
        chosen
    }

    async fn find_out(&self, image: ImageDigest, basis: ChoiceBasis) -> ChosenAccelerator {
        let reason = match host::no_kvm() {
            Some(reason) => Some(reason),
            None => self.boots(Accelerator::Kvm, image, KVM_TIMEOUT).await.err().map(|error| {
                format!("no guest boots on /dev/kvm: {}", error.lines().next().unwrap_or_default())
            }),
        };
        let accelerator = if reason.is_none() { Accelerator::Kvm } else { Accelerator::Tcg };
        let chosen = ChosenAccelerator { accelerator, reason, basis };
        if let Err(error) = self.state.remember(&chosen) {
            tracing::warn!(%error, "could not store the choice of accelerator; the next server tries again");
        }
        chosen
    }

    async fn boots(
        &self,
        accelerator: Accelerator,
        image: ImageDigest,
        dial_timeout: Duration,
    ) -> Result<(), String> {
        let driver = Self { state: self.state.clone(), acceleration: Acceleration::Only(accelerator) };
        let data = &self.state.config.data;
        let probe = StartProbe { data, image, disk_mib: PROBE_DISK_MIB, dial_timeout };
        probe.run(&driver, |id| self.console(id)).await
    }
}

impl QemuState {
    fn basis(&self) -> ChoiceBasis {
        let kernel = self.images.kernel().ok().flatten();
        ChoiceBasis {
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            version: self.program.version.clone(),
            kernel: kernel.map(|kernel| kernel.digest.to_string()).unwrap_or_default(),
        }
    }

    fn remembered(&self, basis: &ChoiceBasis) -> Option<ChosenAccelerator> {
        let chosen: ChosenAccelerator =
            serde_json::from_slice(&fs::read(self.config.data.join(FILE)).ok()?).ok()?;
        (chosen.basis == *basis).then_some(chosen)
    }

    fn remember(&self, chosen: &ChosenAccelerator) -> io::Result<()> {
        let (file, temporary) = (self.config.data.join(FILE), self.config.data.join("acceleration.json.new"));
        // By rename, so that a crash never leaves half an answer.
        fs::write(&temporary, serde_json::to_vec(chosen)?)?;
        fs::rename(temporary, file)
    }
}

fn describe(version: &str, chosen: &ChosenAccelerator) -> String {
    match (chosen.accelerator, &chosen.reason) {
        (Accelerator::Kvm, _) => format!("QEMU {version} with KVM"),
        (Accelerator::Tcg, None) => format!("QEMU {version}, emulated"),
        (Accelerator::Tcg, Some(reason)) => format!("QEMU {version}, emulated: {reason}"),
    }
}
