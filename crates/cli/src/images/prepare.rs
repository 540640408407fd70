//! The background thread that builds images one after another and retries after a failure.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::image::{BuildError, Builder, Cancellation, ImageFlavour};
use sandyard_server::app::ImageState;

use super::{YardImages, builder};
use crate::config::{ImageChoice, Surroundings};
use crate::progress::ProgressLine;
use crate::ui::Ui;

/// Delay between two checks of the cache after a failure: somebody may build the image by hand.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Checks of the cache before the build is retried: mirrors come back.
const LOOKS_BEFORE_RETRY: u32 = 60;

/// Handle of the background thread.
pub(crate) struct Preparation {
    cancellation: Cancellation,
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl YardImages {
    /// Starts to build the configured images that the cache lacks.
    pub(crate) fn prepare(&self, wanted: ImageChoice, surroundings: &Surroundings, ui: Ui) -> Preparation {
        let cancellation = Cancellation::default();
        let builder = builder(self.store.clone(), surroundings, cancellation.clone());
        Preparation::begin(self.clone(), builder, cancellation, wanted, ui)
    }
}

impl Preparation {
    fn begin(
        images: YardImages,
        builder: Builder,
        cancellation: Cancellation,
        choice: ImageChoice,
        ui: Ui,
    ) -> Self {
        let wanted: &[ImageFlavour] = match choice {
            ImageChoice::Nothing => &[],
            ImageChoice::Base => &[ImageFlavour::Base],
            ImageChoice::Full => &[ImageFlavour::Base, ImageFlavour::Full],
        };
        for flavour in wanted {
            if !matches!(images.get(*flavour), ImageState::Ready { .. }) {
                images.set(*flavour, ImageState::Preparing { percent: 0, step: "waiting".to_owned() });
            }
        }
        let (stop, stopped) = mpsc::channel();
        let worker = PreparationThread { images, builder, stopped, ui };
        let thread = std::thread::spawn(move || worker.run(wanted));
        Self { cancellation, stop, thread: Some(thread) }
    }

    /// Cancels a running build and waits for the thread. Blocks for about a second.
    pub(crate) fn end(mut self) {
        self.cancellation.cancel();
        // The thread may have ended before.
        // After `cancel`, so that the thread, once awake, starts no other build.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct PreparationThread {
    images: YardImages,
    builder: Builder,
    stopped: mpsc::Receiver<()>,
    ui: Ui,
}

impl PreparationThread {
    fn run(&self, wanted: &[ImageFlavour]) {
        for flavour in wanted {
            if !self.make(*flavour) {
                return;
            }
        }
        // An image that the server does not build may still be built by hand.
        let unwanted: Vec<_> =
            ImageFlavour::ALL.into_iter().filter(|flavour| !wanted.contains(flavour)).collect();
        while !self.rest() {
            for flavour in &unwanted {
                self.look(*flavour);
            }
        }
    }

    /// Returns when the image exists; `false` if the thread must stop.
    fn make(&self, flavour: ImageFlavour) -> bool {
        loop {
            if self.look(flavour) {
                return true;
            }
            match self.build(flavour) {
                Ok(()) => return true,
                Err(BuildError::Cancelled) => return false,
                Err(error) => self.failed(flavour, &error),
            }
            for _ in 0..LOOKS_BEFORE_RETRY {
                if self.rest() {
                    return false;
                }
                if self.look(flavour) {
                    return true;
                }
            }
        }
    }

    fn build(&self, flavour: ImageFlavour) -> Result<(), BuildError> {
        let mut shown = ProgressLine::new(&format!("image {flavour}"), false);
        let mut report = |progress: &sandyard_sandbox::image::BuildProgress| {
            shown.set(progress.percent, &progress.phase);
            let state = ImageState::Preparing { percent: progress.percent, step: progress.phase.clone() };
            self.images.set(progress.flavour, state);
        };
        let image = self.builder.ensure(&self.images.request(flavour), &mut report)?;
        self.images.set(flavour, ImageState::Ready { image: image.digest });
        self.ui.note(&format!("image {flavour}: ready"));
        Ok(())
    }

    fn failed(&self, flavour: ImageFlavour, error: &BuildError) {
        let detail = ErrorChain(error).to_string();
        self.ui.warn(&format!("the {flavour} image was not built: {detail}"));
        let usual = || format!("run `sandyard image build --flavour {flavour}` and read what it says");
        let hint = error.hint().unwrap_or_else(usual);
        self.images.set(flavour, ImageState::Missing { detail, hint });
    }

    /// True if the image is in the cache.
    fn look(&self, flavour: ImageFlavour) -> bool {
        let found = self.images.found(flavour);
        let is_there = found.is_some();
        if let Some(state) = found {
            self.images.set(flavour, state);
        }
        is_there
    }

    /// Waits for the delay between two checks; `true` if the thread must stop.
    fn rest(&self) -> bool {
        !matches!(self.stopped.recv_timeout(LOOK_AGAIN), Err(mpsc::RecvTimeoutError::Timeout))
    }
}
