//! Yards on any driver: what each needs to be tried here, and why it can't be had.

use std::time::{Duration, Instant};

use crate::engine::{Make, TestEngine};
use crate::yard::Yard;

/// How long a driver may take to be tried: it may have to make its form of the image first.
const TRYING: Duration = Duration::from_secs(300);

/// A yard on a driver that works here.
pub(crate) struct DriverYard {
    pub(crate) yard: Yard,
    /// As the server calls it: both engines have the same one.
    pub(crate) driver: String,
    /// Ends after the yard.
    _engine: Option<TestEngine>,
}

impl DriverYard {
    /// Starts one of that driver, or of the engine of that name, with an image of that flavour, or says why the test is skipped. The distribution's runtimes may be old, which is
    /// good enough for a test.
    pub(crate) async fn start(driver: &str, flavour: &str, flags: &[&str]) -> Option<Self> {
        let make = match driver {
            "docker" => Some(Make::Docker),
            "podman" => Some(Make::Podman),
            _ => None,
        };
        let driver = if make.is_some() { "docker" } else { driver };
        let engine = match make.map(TestEngine::find).transpose() {
            Ok(engine) => engine,
            Err(reason) => {
                eprintln!("skipped: {driver}: {reason}");
                return None;
            }
        };
        let mut settings = vec![
            ("SANDYARD_OCI_ALLOW_OUTDATED_RUNTIME", "true"),
            ("SANDYARD_DOCKER_ALLOW_OUTDATED_RUNTIME", "true"),
        ];
        settings
            .extend(engine.iter().map(|engine| ("SANDYARD_DOCKER_SOCKET", engine.socket.to_str().unwrap())));
        let yard = Yard::start_on(driver, flags, &settings).await;
        if let Some(reason) = unusable(&yard, driver, flavour).await {
            eprintln!("skipped: {driver}: {reason}");
            return None;
        }
        Some(Self { yard, driver: driver.to_owned(), _engine: engine })
    }
}

/// Why the driver or the image can't be had here.
async fn unusable(yard: &Yard, driver: &str, flavour: &str) -> Option<String> {
    let deadline = Instant::now() + TRYING;
    loop {
        let told = yard.get_json("/drivers").await;
        let image = told["images"].as_array()?.iter().find(|image| image["flavour"] == flavour)?.clone();
        if image["ready"] != true {
            return Some(format!("needs the {flavour} image (sandyard image build --flavour {flavour})"));
        }
        let about = told["drivers"].as_array()?.iter().find(|about| about["name"] == driver)?.clone();
        match about["state"].as_str() {
            Some("usable") => return None,
            Some("missing") => return Some(format!("{} (fix: {})", about["detail"], about["fix"])),
            _ => assert!(Instant::now() < deadline, "never tried: {about}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
