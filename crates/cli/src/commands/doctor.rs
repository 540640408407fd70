//! `sandyard doctor`: report which drivers work on this machine, and a remedy for each that does not.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use sandyard_api::{AvailabilityView, DriverOffer, DriverState, DriverView, ImageView};
use sandyard_sandbox::driver::{Availability, Driver, DriverVerdict, IsolationLevel, LocalImages, Offer};
use sandyard_sandbox::drivers::stop_trials;
use sandyard_server::app::{ImageFlavour, ImageState, Images};
use serde::Serialize;
use tokio::time::timeout;

use crate::config::{Flags, Settings};
use crate::context::CommandContext;
use crate::drivers;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::host_checks::{self, Check};
use crate::images::YardImages;
use crate::machine;
use crate::serve::ServeError;
use crate::trial::{self, TrialFolder, TrialHost};
use crate::ui::{TableCell, Tone};

/// After this long a trial is reported as booting a virtual machine.
const CONTAINERS_WITHIN: Duration = Duration::from_secs(3);

const EXAMPLES: &str = "\
Examples:
  sandyard doctor
  sandyard doctor native --json";

/// Report what works on this machine, and how to fix the rest
///
/// Starts a sandbox to find out. Exits with 7 if none can start.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorCommand {
    /// Check only this driver
    driver: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Results of all checks, as `--json` prints them.
#[derive(Debug, Serialize)]
struct DoctorReport {
    drivers: Vec<DriverFinding>,
    images: Vec<ImageFinding>,
    checks: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct DriverFinding {
    name: String,
    usable: bool,
    level: IsolationLevel,
    runtime: String,
    #[serde(flatten)]
    availability: Availability,
}

#[derive(Debug, Serialize)]
struct ImageFinding {
    flavour: String,
    ready: bool,
    detail: String,
    fix: Option<String>,
}

impl DoctorCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        if let Some(name) =
            self.driver.as_deref().filter(|name| !drivers::names().any(|known| known == *name))
        {
            let known: Vec<_> = drivers::names().collect();
            let known = format!("known drivers: {}", known.join(", "));
            return Err(CommandError::usage_with_hint(format!("there is no driver `{name}`"), known));
        }
        let settings = context.settings(&Flags::default())?;
        let images = YardImages::of(&settings);
        let server = ask_server(context, &settings).await?;
        let (drivers, images) = match &server {
            // The server knows its drivers better than a trial beside it, which has other rights and another folder.
            Some(told) => (
                told_drivers(told, self.driver.as_deref()),
                told.images.iter().cloned().map(told_image).collect(),
            ),
            None => {
                let Some(drivers) = try_drivers(context, &settings, &images, self.driver.as_deref()).await?
                else {
                    return Ok(CommandExit::Interrupted);
                };
                (drivers, ImageFlavour::ALL.map(|flavour| image_finding(&images, flavour)).into())
            }
        };
        let report = DoctorReport { drivers, images, checks: host_checks::all(&settings) };
        if self.json {
            context.ui.json(&report)?;
        } else {
            if server.is_some() {
                context.ui.faint("a server runs here; drivers and images are as it sees them");
            }
            show(context, &report)?;
            if self.driver.is_none() {
                context.ui.line(&report.outlook(&settings))?;
            }
            context.ui.faint(&format!(
                "data: {}, images: {}",
                settings.data.display(),
                settings.cache.display()
            ));
        }
        let usable = report.drivers.iter().any(|driver| driver.usable);
        Ok(if usable { CommandExit::Success } else { CommandExit::NotUsable })
    }
}

/// Tries all drivers at once, in a folder of their own. Returns none if a signal ended the trials.
async fn try_drivers(
    context: &CommandContext,
    settings: &Settings,
    images: &YardImages,
    wanted: Option<&str>,
) -> Result<Option<Vec<DriverFinding>>, CommandError> {
    let parent = std::env::temp_dir();
    let host =
        TrialHost { cache: &settings.cache, images: Arc::new(images.clone()), settings: &settings.drivers };
    trial::remove_abandoned(&parent, &host).await;
    let folder = TrialFolder::make_in(&parent)?;
    let mut stop = machine::stop_signals();
    let drivers = drivers::open(&folder.plan(&host), wanted).map_err(ServeError::Driver)?;
    // Dropping the trials leaves their sandboxes, which are removed below.
    let findings = tokio::select! {
        findings = try_all(context, &drivers) => Some(findings),
        () = stop.next() => None,
    };
    if findings.is_none() {
        context.ui.faint("interrupted; removing the sandboxes of the trials");
    }
    // Also after whole trials: one whose sandbox could not be removed at once is given another chance.
    let stopped = stop_trials(&drivers).await;
    drop(drivers);
    if stopped {
        folder.remove()?;
    } else {
        context.ui.warn("a trial left something behind; the next doctor or server removes it");
    }
    Ok(findings)
}

async fn try_all(context: &CommandContext, drivers: &[Arc<dyn Driver>]) -> Vec<DriverFinding> {
    let mut trials = pin!(join_all(drivers.iter().map(|driver| try_driver(driver.as_ref()))));
    if let Ok(findings) = timeout(CONTAINERS_WITHIN, &mut trials).await {
        return findings;
    }
    context.ui.faint("virtual machines are tried, which takes up to a minute");
    trials.await
}

async fn try_driver(driver: &dyn Driver) -> DriverFinding {
    let availability = driver.availability().await;
    // Some drivers know their runtime only after the check.
    let isolation = driver.isolation();
    DriverFinding {
        name: driver.name().to_owned(),
        usable: availability.verdict == DriverVerdict::Usable,
        level: isolation.level,
        runtime: isolation.runtime,
        availability,
    }
}

/// Asks the server of this machine, if one runs. It looks again at drivers that were missing.
async fn ask_server(
    context: &CommandContext,
    settings: &Settings,
) -> Result<Option<AvailabilityView>, CommandError> {
    let Some(client) = context.running_server(settings).await? else { return Ok(None) };
    if !client.endpoint().is_local() {
        return Ok(None);
    }
    Ok(client.drivers().await.ok())
}

fn told_drivers(told: &AvailabilityView, wanted: Option<&str>) -> Vec<DriverFinding> {
    let chosen = told.drivers.iter().filter(|driver| wanted.is_none_or(|name| name == driver.name));
    chosen.map(told_driver).collect()
}

fn told_driver(driver: &DriverView) -> DriverFinding {
    let (detail, offer) = (
        driver.detail.clone(),
        match driver.offer {
            DriverOffer::Always => Offer::Always,
            DriverOffer::WhenNeeded => Offer::WhenNeeded,
            DriverOffer::WhenNamed => Offer::WhenNamed,
        },
    );
    let availability = match driver.state {
        DriverState::Usable => Availability::usable(detail),
        DriverState::Untried | DriverState::Trying => Availability::untried(detail),
        DriverState::Missing => Availability::missing(detail, driver.fix.clone().unwrap_or_default()),
    };
    DriverFinding {
        name: driver.name.clone(),
        usable: driver.usable,
        level: IsolationLevel::parse(&driver.level).unwrap_or(IsolationLevel::None),
        runtime: driver.runtime.clone(),
        availability: availability.offered(offer),
    }
}

/// A server tells what is missing and how to mend it in one text, the remedy last. An image that is being made needs none.
fn told_image(image: ImageView) -> ImageFinding {
    let is_made = image.detail.split_once(" %: ").is_some_and(|(percent, _)| percent.parse::<u8>().is_ok());
    let (detail, fix) = match image.detail.rsplit_once("; ") {
        Some((detail, fix)) if !image.ready && !is_made => (detail.to_owned(), Some(fix.to_owned())),
        _ => (image.detail, None),
    };
    ImageFinding { flavour: image.flavour, ready: image.ready, detail, fix }
}

fn image_finding(images: &YardImages, flavour: ImageFlavour) -> ImageFinding {
    let (ready, detail, fix) = match images.state(flavour) {
        ImageState::Ready { image } => {
            let tree = images.tree(&image).map(|tree| tree.display().to_string());
            (true, tree.unwrap_or_else(|| image.to_string()), None)
        }
        ImageState::Preparing { percent, step } => (false, format!("{percent} %, {step}"), None),
        ImageState::Missing { detail, hint } => (false, detail, Some(hint)),
    };
    ImageFinding { flavour: flavour.as_str().to_owned(), ready, detail, fix }
}

fn show(context: &CommandContext, report: &DoctorReport) -> Result<(), CommandError> {
    context.ui.table(
        &["DRIVER", "STATE", "WALL", "RUNTIME", "DETAIL"],
        &report.drivers.iter().map(driver_row).collect::<Vec<_>>(),
    )?;
    for driver in &report.drivers {
        show_console(context, driver)?;
    }
    context.ui.line("")?;
    let images = report
        .images
        .iter()
        .map(|image| row("image", &image.flavour, image.ready, &image.detail, &image.fix));
    let checks =
        report.checks.iter().map(|check| row("host", check.name, check.ok, &check.detail, &check.fix));
    context.ui.table(&["", "WHAT", "STATE", "DETAIL"], &images.chain(checks).collect::<Vec<_>>())?;
    context.ui.line("")?;
    for (name, fix) in report.fixes() {
        context.ui.line(&format!("fix {name}: {fix}"))?;
    }
    Ok(())
}

/// Shows what a guest said before its driver was given up.
fn show_console(context: &CommandContext, driver: &DriverFinding) -> Result<(), CommandError> {
    for (number, line) in driver.availability.detail.lines().skip(1).enumerate() {
        if number == 0 {
            context.ui.line(&format!("\nlast lines of the machine of {}:", driver.name))?;
        }
        context.ui.line(line)?;
    }
    Ok(())
}

impl DoctorReport {
    /// Returns the fixes of everything that failed.
    fn fixes(&self) -> impl Iterator<Item = (&str, &str)> {
        let drivers = self.drivers.iter().filter(|driver| !driver.usable);
        let drivers = drivers.map(|driver| (driver.name.as_str(), &driver.availability.fix));
        let images = self.images.iter().filter(|image| !image.ready);
        let images = images.map(|image| (image.flavour.as_str(), &image.fix));
        let checks = self.checks.iter().filter(|check| !check.ok).map(|check| (check.name, &check.fix));
        let all = drivers.chain(images).chain(checks);
        all.filter_map(|(name, fix)| fix.as_deref().map(|fix| (name, fix)))
    }

    /// Describes the isolation of a job that asks for nothing, and of one that asks for a virtual machine.
    fn outlook(&self, settings: &Settings) -> String {
        let first = |level: IsolationLevel, most: Offer| {
            let usable = self.drivers.iter().filter(|driver| driver.usable && driver.level >= level);
            let offered = |driver: &&DriverFinding| {
                driver.availability.offer == Offer::Always || driver.availability.offer == most
            };
            usable.filter(offered).map(|driver| driver.name.as_str()).next().unwrap_or("none")
        };
        format!(
            "a job runs on {}\none that asks for isolation `vm`, on {}\nthe server's floor is `{}`",
            first(IsolationLevel::None, Offer::Always),
            first(IsolationLevel::Vm, Offer::WhenNeeded),
            settings.isolation.as_text()
        )
    }
}

fn driver_row(driver: &DriverFinding) -> Vec<TableCell> {
    let (state, tone) = match (driver.availability.verdict, driver.availability.offer) {
        (DriverVerdict::Usable, Offer::Always) => ("ok", Tone::Good),
        (DriverVerdict::Usable, Offer::WhenNeeded) => ("when needed", Tone::Warning),
        (DriverVerdict::Usable, Offer::WhenNamed) => ("when named", Tone::Warning),
        (DriverVerdict::Untried, _) => ("untried", Tone::Warning),
        (DriverVerdict::Missing, _) => ("missing", Tone::Bad),
    };
    vec![
        TableCell::plain(&driver.name),
        TableCell(state.to_owned(), tone),
        TableCell::plain(driver.level.as_str()),
        TableCell(driver.runtime.clone(), Tone::Faint),
        TableCell::plain(driver.availability.summary()),
    ]
}

fn row(part: &str, name: &str, well: bool, detail: &str, fix: &Option<String>) -> Vec<TableCell> {
    let (state, tone) = match (well, fix) {
        (true, _) => ("ok", Tone::Good),
        (false, Some(_)) => ("missing", Tone::Bad),
        (false, None) => ("absent", Tone::Warning),
    };
    vec![
        TableCell(part.to_owned(), Tone::Faint),
        TableCell::plain(name),
        TableCell(state.to_owned(), tone),
        TableCell::plain(detail),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_of_a_server_is_a_fix() {
        let told = |ready: bool, detail: &str| {
            let finding = told_image(ImageView { flavour: "full".into(), ready, detail: detail.into() });
            (finding.detail, finding.fix)
        };
        let missing = "the full image is not built; run `sandyard image build --flavour full`";
        assert_eq!(
            told(false, missing),
            (
                "the full image is not built".into(),
                Some("run `sandyard image build --flavour full`".to_owned())
            )
        );
        assert_eq!(told(false, "12 %: packages; all").1, None);
        assert_eq!(told(true, "ready"), ("ready".into(), None));
    }
}
