//! `sandyard image build`: build the tree, and on request the form for an engine or for virtual machines.

use std::path::PathBuf;

use clap::Args;
use sandyard_sandbox::image::vm::KernelSource;
use sandyard_sandbox::image::{
    ArchiveSnapshot, BuildError, Cancellation, Image as BuiltImage, ImageArchitecture, ImageFlavour,
    ImageRequest, ImageStore,
};

use super::vm;
use crate::clock;
use crate::config::DriverSettings;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::images::engine::{self, EngineDestination};
use crate::images::{self, ImageError};
use crate::machine;

const EXAMPLES: &str = "\
Examples:
  sandyard image build --flavour full
  sandyard image build --flavour dev --add packages.txt
  sandyard image build --format docker --output image.tar";

/// Build an image unless it exists; prints its folder, its files, or its name in the engine
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Build {
    /// base: shell, Python, Node, git; full: also compilers, kernels, desktop and browser; dev: also Go, Rust, Java and tools
    #[arg(long, value_name = "base|full|dev", default_value = "base", value_parser = parse_flavour)]
    flavour: ImageFlavour,
    /// Processor that the image is for [default: this machine's]; another one needs an emulator (qemu-user-static)
    #[arg(long, value_name = "x86_64|aarch64", value_parser = parse_architecture)]
    architecture: Option<ImageArchitecture>,
    /// Form of the image
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,
    /// Rebuild the image with today's security updates
    #[arg(long)]
    refresh: bool,
    /// Take Debian packages as they were at a moment, from snapshot.debian.org, so that the build can be repeated
    #[arg(long, value_name = "YYYYMMDD[THHMMSSZ]", conflicts_with = "refresh", value_parser = parse_snapshot)]
    snapshot: Option<ArchiveSnapshot>,
    /// Add Debian packages
    #[arg(long, value_name = "PACKAGE", num_args = 1..)]
    with: Vec<String>,
    /// Add the Debian packages that a file lists, one on each line; # begins a comment
    #[arg(long, value_name = "FILE")]
    add: Option<PathBuf>,
    /// With --format docker: write a file for `docker load` instead of loading the image
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --format vm: use this kernel instead of Debian's
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// With --kernel: its folder lib/modules/RELEASE, unless virtio and ext4 are built in
    #[arg(long, value_name = "DIR", requires = "kernel")]
    modules: Option<PathBuf>,
}

/// Forms of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A folder, as the native driver uses it
    Tree,
    /// An image of Docker or Podman, without a registry
    Docker,
    /// Kernel, initrd and disk, as virtual machines use them
    Vm,
}

fn parse_flavour(name: &str) -> Result<ImageFlavour, String> {
    ImageFlavour::parse(name).ok_or_else(|| "base, full or dev".to_owned())
}

fn parse_architecture(name: &str) -> Result<ImageArchitecture, String> {
    ImageArchitecture::parse(name).ok_or_else(|| "x86_64 or aarch64".to_owned())
}

fn parse_snapshot(text: &str) -> Result<ArchiveSnapshot, String> {
    ArchiveSnapshot::parse(text)
        .ok_or_else(|| "a date like 20261101, or a moment like 20261101T083000Z".to_owned())
}

impl Build {
    pub(super) async fn run(
        self,
        context: &CommandContext,
        store: ImageStore,
        drivers: &DriverSettings,
    ) -> Result<CommandExit, CommandError> {
        self.check()?;
        let Some(image) = self.build(context, store.clone()).await? else {
            return Ok(CommandExit::Interrupted);
        };
        context.ui.note(&format!("image {}: {}", self.flavour, describe(&image)));
        match self.format {
            Format::Tree => context.ui.line(&image.root.display().to_string())?,
            Format::Docker => {
                let to = match self.output {
                    Some(path) => EngineDestination::File(path),
                    None => EngineDestination::Engine(engine::socket(drivers.docker.socket.as_deref())),
                };
                let (name, id) = engine::deliver(image, to, context.ui).await?;
                context.ui.note(&id);
                context.ui.line(&name)?;
            }
            Format::Vm => match vm::make(context, store, &image, self.kernel_source()).await? {
                Some(made) => {
                    for file in [made.kernel, made.initrd, made.root_disk] {
                        context.ui.line(&file.display().to_string())?;
                    }
                }
                None => return Ok(CommandExit::Interrupted),
            },
        }
        Ok(CommandExit::Success)
    }

    /// Rejects options that belong to another format.
    fn check(&self) -> Result<(), CommandError> {
        let misplaced = |option: &str, format: &str| {
            let message = format!("{option} goes with one format alone");
            Err(CommandError::usage_with_hint(message, format!("add --format {format}")))
        };
        if self.kernel.is_some() && self.format != Format::Vm {
            return misplaced("--kernel", "vm");
        }
        if self.format == Format::Vm && self.architecture() != ImageArchitecture::native() {
            let message = "virtual machines run images of this machine's processor only";
            return Err(CommandError::usage_with_hint(
                message.to_owned(),
                "leave out --architecture".to_owned(),
            ));
        }
        if self.output.is_some() && self.format != Format::Docker {
            return misplaced("--output", "docker");
        }
        Ok(())
    }

    fn architecture(&self) -> ImageArchitecture {
        self.architecture.unwrap_or_else(ImageArchitecture::native)
    }

    fn kernel_source(self) -> KernelSource {
        match self.kernel {
            Some(kernel) => KernelSource::Given { kernel, modules: self.modules },
            None if self.refresh => KernelSource::Debian,
            None => KernelSource::Cached,
        }
    }

    /// Returns the packages to add: those of the command line and those of the list.
    fn packages(&self) -> Result<Vec<String>, CommandError> {
        let mut packages = self.with.clone();
        if let Some(list) = &self.add {
            let text = std::fs::read_to_string(list)
                .map_err(|error| CommandError::usage(format!("read {}: {error}", list.display())))?;
            packages.extend(listed(&text));
        }
        Ok(packages)
    }

    /// Builds the tree that every form is made from. Returns `None` if a signal came first.
    async fn build(
        &self,
        context: &CommandContext,
        store: ImageStore,
    ) -> Result<Option<BuiltImage>, CommandError> {
        let flavour = self.flavour;
        let (with, refresh) = (self.packages()?, self.refresh.then(clock::unix_s));
        let request = ImageRequest {
            flavour,
            architecture: self.architecture(),
            with,
            refresh,
            snapshot: self.snapshot.clone(),
        };
        let cancellation = Cancellation::default();
        let builder = images::builder(store, &context.surroundings, cancellation.clone());
        let ui = context.ui;
        let mut stop = machine::stop_signals();
        let mut building = tokio::task::spawn_blocking(move || {
            let mut progress = ui.progress(&format!("image {}", request.flavour));
            let built = builder.ensure(&request, &mut |report| progress.set(report.percent, &report.phase));
            progress.finish();
            built
        });
        // The build is a blocking task that dropping its handle would not end. A signal therefore asks it to
        // stop and waits, so that no mount or temporary file is left.
        let built = tokio::select! {
            built = &mut building => built,
            () = stop.next() => {
                // The build removes its temporary files and mounts before it returns.
                cancellation.cancel();
                building.await
            }
        };
        match built {
            Ok(Ok(image)) => Ok(Some(image)),
            Ok(Err(BuildError::Cancelled)) => Ok(None),
            Ok(Err(source)) => Err(ImageError::Build { flavour, source }.into()),
            Err(panicked) => Err(std::io::Error::other(panicked).into()),
        }
    }
}

/// Returns the packages of a list: words, without comments.
fn listed(text: &str) -> impl Iterator<Item = String> + '_ {
    let lines = text.lines().map(|line| line.split_once('#').map_or(line, |(before, _)| before));
    lines.flat_map(str::split_whitespace).map(str::to_owned)
}

fn describe(image: &BuiltImage) -> String {
    let facts = &image.facts;
    let (size, packages) = (facts.size_bytes / (1024 * 1024), facts.packages);
    format!("{}, {size} MiB, {packages} packages, built in {} s", image.digest.short(), facts.build_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_packages_and_comments() {
        let listed: Vec<_> = listed("# mine\njq  # for JSON\n\nffmpeg sox\n").collect();
        assert_eq!(listed, ["jq", "ffmpeg", "sox"]);
    }
}
