//! `sandyard doctor`: what works on this machine, what does not, and what to do about it.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use sandyard_api::ImageView;
use sandyard_sandbox::driver::{Driver, IsolationLevel};
use sandyard_server::app::{Flavour, ImageState, Images};
use serde::Serialize;

use crate::config::{Flags, Settings};
use crate::context::Context;
use crate::drivers::{self, DriverPlan};
use crate::errors::CommandError;
use crate::exit_codes::Exit;
use crate::host_checks::{self, Check};
use crate::images::YardImages;
use crate::serve::ServeError;
use crate::ui::{Cell, Tone};

/// Say what works on this machine, and how to get what does not
///
/// Starts a sandbox to find out. Exits with 7 if none can start.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Only this driver
    driver: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// All findings.
#[derive(Debug, Serialize)]
struct Report {
    drivers: Vec<DriverFinding>,
    images: Vec<ImageFinding>,
    checks: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct DriverFinding {
    name: String,
    usable: bool,
    level: &'static str,
    runtime: String,
    detail: String,
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
struct ImageFinding {
    flavour: String,
    ready: bool,
    detail: String,
    fix: Option<String>,
}

impl Doctor {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        if let Some(name) =
            self.driver.as_deref().filter(|name| !drivers::names().any(|known| known == *name))
        {
            let known: Vec<_> = drivers::names().collect();
            let known = format!("known drivers: {}", known.join(", "));
            return Err(CommandError::usage_with_hint(format!("there is no driver `{name}`"), known));
        }
        let settings = context.settings(&Flags::default())?;
        let images = YardImages::new(&settings);
        let report = Report {
            drivers: try_drivers(&settings, &images, self.driver.as_deref()).await?,
            images: image_findings(context, &settings, &images).await?,
            checks: host_checks::all(&settings),
        };
        if self.json {
            context.ui.json(&report)?;
        } else {
            show(context, &report, &settings)?;
        }
        let usable = report.drivers.iter().any(|driver| driver.usable);
        Ok(if usable { Exit::Success } else { Exit::NotUsable })
    }
}

/// Tries them in a folder of their own: the yard's may be in use by a server.
async fn try_drivers(
    settings: &Settings,
    images: &YardImages,
    wanted: Option<&str>,
) -> Result<Vec<DriverFinding>, CommandError> {
    let folder = tempfile::Builder::new().prefix("sandyard-doctor-").tempdir()?;
    let probe = images.clone();
    let plan = DriverPlan {
        data: folder.path(),
        cache: &settings.cache,
        pool: 0,
        disk_mib: 64,
        probe_image: Arc::new(move || probe.base_root()),
        settings: &settings.drivers,
    };
    let mut findings = Vec::new();
    for driver in drivers::open(&plan, wanted).map_err(ServeError::Driver)? {
        findings.push(try_driver(driver.as_ref()).await);
    }
    Ok(findings)
}

async fn try_driver(driver: &dyn Driver) -> DriverFinding {
    let isolation = driver.isolation();
    let availability = driver.availability().await;
    DriverFinding {
        name: driver.name().to_owned(),
        usable: availability.may_start(),
        level: match isolation.level {
            IsolationLevel::None => "none",
            IsolationLevel::Container => "container",
            IsolationLevel::Gvisor => "gvisor",
            IsolationLevel::Vm => "vm",
        },
        runtime: isolation.runtime,
        detail: availability.detail,
        fix: availability.fix,
    }
}

/// A running server knows how far its builds are; without one the cache is asked.
async fn image_findings(
    context: &Context,
    settings: &Settings,
    images: &YardImages,
) -> Result<Vec<ImageFinding>, CommandError> {
    if let Some(client) = context.running_server(settings).await?
        && let Ok(told) = client.drivers().await
    {
        let finding = |image: ImageView| ImageFinding {
            flavour: image.flavour,
            ready: image.ready,
            detail: image.detail,
            fix: None,
        };
        return Ok(told.images.into_iter().map(finding).collect());
    }
    Ok([Flavour::Base, Flavour::Full].map(|flavour| image_finding(images, flavour)).into())
}

fn image_finding(images: &YardImages, flavour: Flavour) -> ImageFinding {
    let (ready, detail, fix) = match images.state(flavour) {
        ImageState::Ready { root } => (true, root.display().to_string(), None),
        ImageState::Preparing { percent, step } => (false, format!("{percent} %, {step}"), None),
        ImageState::Missing { detail, hint } => (false, detail, Some(hint)),
    };
    ImageFinding { flavour: flavour.as_str().to_owned(), ready, detail, fix }
}

fn show(context: &Context, report: &Report, settings: &Settings) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    for driver in &report.drivers {
        let detail = format!("{} ({})", driver.detail, driver.runtime);
        rows.push(row("driver", &driver.name, driver.usable, &detail, driver.fix.as_deref()));
    }
    for image in &report.images {
        rows.push(row("image", &image.flavour, image.ready, &image.detail, image.fix.as_deref()));
    }
    for check in &report.checks {
        rows.push(row("host", check.name, check.ok, &check.detail, check.fix.as_deref()));
    }
    context.ui.table(&["", "WHAT", "STATE", "DETAIL"], &rows)?;
    let fixes = report.drivers.iter().map(|driver| (driver.usable, driver.name.as_str(), &driver.fix));
    let fixes =
        fixes.chain(report.images.iter().map(|image| (image.ready, image.flavour.as_str(), &image.fix)));
    let fixes = fixes.chain(report.checks.iter().map(|check| (check.ok, check.name, &check.fix)));
    for (_, name, fix) in fixes.filter(|(well, ..)| !well) {
        if let Some(fix) = fix {
            context.ui.line(&format!("fix {name}: {fix}"))?;
        }
    }
    context.ui.faint(&format!("data: {}, images: {}", settings.data.display(), shown(&settings.cache)));
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn row(part: &str, name: &str, well: bool, detail: &str, fix: Option<&str>) -> Vec<Cell> {
    let (state, tone) = match (well, fix) {
        (true, _) => ("ok", Tone::Good),
        (false, Some(_)) => ("missing", Tone::Bad),
        (false, None) => ("absent", Tone::Warning),
    };
    vec![
        Cell(part.to_owned(), Tone::Faint),
        Cell::plain(name),
        Cell(state.to_owned(), tone),
        Cell::plain(detail),
    ]
}
