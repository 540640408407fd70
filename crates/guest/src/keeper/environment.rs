//! The environment variables of the machine's processes.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

/// The image's variables, and those that the job adds once it has begun.
#[derive(Debug)]
pub(super) struct ProcessEnvironment {
    image: BTreeMap<String, String>,
    job: Mutex<BTreeMap<String, String>>,
}

impl ProcessEnvironment {
    pub(super) fn new(image: BTreeMap<String, String>) -> Self {
        Self { image, job: Mutex::default() }
    }

    /// The variables without those of the job, for keeper's own workers.
    pub(super) fn of_image(&self) -> &BTreeMap<String, String> {
        &self.image
    }

    /// The variables that the job adds.
    pub(super) fn of_job(&self) -> BTreeMap<String, String> {
        self.job().clone()
    }

    /// Sets the variables that the job adds.
    pub(super) fn set_job(&self, env: BTreeMap<String, String>) {
        *self.job() = env;
    }

    /// All variables; the job's win.
    pub(super) fn whole(&self) -> BTreeMap<String, String> {
        let mut env = self.image.clone();
        env.extend(self.of_job());
        env
    }

    fn job(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.job.lock()
    }
}
