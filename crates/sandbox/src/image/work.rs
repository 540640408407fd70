//! One running build: the tree to start from, then the recipe's steps inside it.
//!
//! This module knows neither the store nor the check at the end; the tree in `root` is not yet an image.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use super::build_error::BuildError;
use super::cancellation::Cancellation;
use super::host::{INPUTS, StagedInputs};
use super::manifest::RecipeManifest;
use super::progress::Reporter;
use super::steps::{self, StepError, TOOL_PATH};
use super::{ArchiveSnapshot, Image, ImageArchitecture, ImageDigest, ImageFlavour};

/// Path at which `host/enter.sh` mounts the recipe inside the root.
const RECIPE: &str = "/run/recipe";

/// Facts about an image before it is made.
pub(super) struct BuildPlan {
    pub(super) flavour: ImageFlavour,
    pub(super) architecture: ImageArchitecture,
    pub(super) manifest: RecipeManifest,
    pub(super) recipe: ImageDigest,
    pub(super) digest: ImageDigest,
    pub(super) parent: Option<Image>,
    pub(super) with: Vec<String>,
    pub(super) refresh: u64,
    pub(super) snapshot: Option<ArchiveSnapshot>,
}

pub(super) struct BuildWork<'a> {
    pub(super) cancellation: &'a Cancellation,
    pub(super) plan: &'a BuildPlan,
    pub(super) root: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) recipe: &'a Path,
    pub(super) staged: &'a StagedInputs,
    pub(super) log: File,
    pub(super) reporter: Reporter<'a>,
}

impl BuildWork<'_> {
    /// Makes the tree that the steps start from.
    pub(super) fn make_tree(&mut self) -> Result<(), BuildError> {
        let manifest = &self.plan.manifest;
        self.reporter.begin(&manifest.bootstrap);
        let command = match &self.plan.parent {
            Some(parent) => {
                let mut command = steps::isolated_command(Path::new("cp"));
                command.args(["--archive", "--reflink=auto"]).arg(&parent.root).arg(self.root);
                command
            }
            None => {
                let mut command = self.bootstrap();
                command
                    .arg(self.root)
                    .arg(self.scratch)
                    .arg(&manifest.suite)
                    .arg(&self.staged.sources)
                    .arg(&self.staged.apt_options);
                command.envs(self.staged.variables.iter().cloned());
                command
            }
        };
        self.run(command, "bootstrap", &manifest.bootstrap.phase)
    }

    /// Returns the command that lays out a minimal Debian.
    fn bootstrap(&self) -> Command {
        let architecture = self.plan.architecture;
        if architecture == ImageArchitecture::native() {
            return steps::isolated_command(&self.recipe.join("host/bootstrap.sh"));
        }
        let mut command = steps::isolated_command(&self.recipe.join("host/bootstrap-as.sh"));
        command.arg(architecture.debian_name());
        command
    }

    /// Runs the recipe's scripts inside the tree.
    pub(super) fn run_steps(&mut self) -> Result<(), BuildError> {
        for step in &self.plan.manifest.steps {
            self.reporter.begin(&step.share);
            let mut command = steps::isolated_command(&self.recipe.join("host/enter.sh"));
            command.arg(self.root).arg(self.scratch).arg(self.recipe).arg(&self.staged.inputs);
            command.args(["/usr/bin/env", "-i"]).args(self.step_variables());
            command.arg(format!("{RECIPE}/scripts/{}", step.script));
            self.run(command, &step.script, &step.share.phase)?;
        }
        Ok(())
    }

    fn step_variables(&self) -> Vec<String> {
        let own = [
            ("PATH", TOOL_PATH),
            ("RECIPE", RECIPE),
            ("INPUTS", INPUTS),
            ("FLAVOUR", self.plan.flavour.as_str()),
            ("WITH", &self.plan.with.join(" ")),
            ("PROGRESS", "apt"),
        ];
        let lent = self.staged.variables.iter().map(|(name, value)| format!("{name}={value}"));
        own.iter().map(|(name, value)| format!("{name}={value}")).chain(lent).collect()
    }

    fn run(&mut self, command: Command, tool: &str, phase: &str) -> Result<(), BuildError> {
        let reporter = &mut self.reporter;
        let mut line = |text: &str| reporter.line(text);
        match steps::run(command, tool, &mut self.log, self.cancellation, &mut line) {
            Ok(()) => Ok(()),
            Err(StepError::Cancelled) => Err(BuildError::Cancelled),
            Err(source) => Err(BuildError::Step { phase: phase.to_owned(), source }),
        }
    }
}
