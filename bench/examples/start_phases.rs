//! Measures the start of native sandboxes and prints `{"phases": [{"name", "ms": […]}]}` for `bench/start.py`.
//! Run as root: `start_phases IMAGE_ROOT RUNS GAP_MS`.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_programs::PROGRAMS;
use sandyard_protocol::Secret;
use sandyard_sandbox::driver::{Driver, ImageDigest, Limits, LocalImages, SandboxId, SandboxSpec};
use sandyard_sandbox::drivers::native::{
    LAUNCHER_COMMAND, LauncherProgram, NativeConfig, NativeDriver, launcher_main,
};

/// Samples by name, in the order in which names first came.
#[derive(Default)]
struct Series {
    order: Vec<String>,
    samples: BTreeMap<String, Vec<f64>>,
}

impl Series {
    fn note(&mut self, name: &str, time: Duration) {
        if !self.samples.contains_key(name) {
            self.order.push(name.to_owned());
        }
        self.samples.entry(name.to_owned()).or_default().push(time.as_secs_f64() * 1000.0);
    }

    fn to_json(&self) -> serde_json::Value {
        let phase = |name: &String| serde_json::json!({ "name": name, "ms": self.samples.get(name) });
        serde_json::json!({ "phases": self.order.iter().map(phase).collect::<Vec<_>>() })
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is its purpose")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == LAUNCHER_COMMAND) {
        return launcher_main();
    }
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    let (Some(root), Some(runs), Some(gap_ms)) = (arguments.first(), number(1), number(2)) else {
        eprintln!("usage: start_phases IMAGE_ROOT RUNS GAP_MS");
        return ExitCode::from(2);
    };
    match measure(Path::new(root), runs, Duration::from_millis(gap_ms)) {
        Ok(series) => {
            println!("{}", series.to_json());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The tree to measure with, under a made-up digest.
#[derive(Debug)]
struct OneTree(PathBuf);

impl LocalImages for OneTree {
    fn tree(&self, _: &ImageDigest) -> Option<PathBuf> {
        Some(self.0.clone())
    }

    fn probe_image(&self) -> Option<ImageDigest> {
        digest()
    }
}

fn digest() -> Option<ImageDigest> {
    ImageDigest::parse(&"0".repeat(64))
}

fn measure(root: &Path, runs: u64, gap: Duration) -> Result<Series, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let directory = tempfile::tempdir()?;
        let driver = NativeDriver::open(config(root, directory.path()))?;
        let mut series = Series::default();
        for run in 0..runs {
            tokio::time::sleep(gap).await;
            one(&driver, &spec(directory.path(), run)?, &mut series).await?;
        }
        Ok(series)
    })
}

async fn one(driver: &NativeDriver, spec: &SandboxSpec, series: &mut Series) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    driver.start(spec).await?;
    series.note("start", began.elapsed());
    drop(driver.next_link(&spec.id).await?);
    series.note("start until keeper has dialled", began.elapsed());
    let mut steps: Vec<(String, Duration)> = Vec::new();
    for (step, micros) in driver.phases(&spec.id) {
        let (name, time) = (step.to_string(), Duration::from_micros(micros));
        match steps.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += time,
            None => steps.push((name, time)),
        }
    }
    for (name, time) in steps {
        series.note(&format!("of it: {name}"), time);
    }
    let began = Instant::now();
    driver.stop(&spec.id).await?;
    series.note("stop", began.elapsed());
    Ok(())
}

fn config(root: &Path, directory: &Path) -> NativeConfig {
    NativeConfig {
        data: directory.join("data"),
        run: directory.join("run"),
        launcher: LauncherProgram {
            program: "/proc/self/exe".into(),
            arguments: vec![LAUNCHER_COMMAND.into()],
        },
        parked_slots: 2,
        blank_disks: 2,
        blank_disk_mib: Limits::default().disk_mib,
        images: Arc::new(OneTree(root.to_owned())),
        programs: PROGRAMS,
        fail_at: None,
    }
}

fn spec(directory: &Path, run: u64) -> Result<SandboxSpec, Box<dyn Error>> {
    let name = format!("bench-{run}");
    let workspace: PathBuf = directory.join(&name);
    std::fs::create_dir_all(&workspace)?;
    Ok(SandboxSpec {
        id: SandboxId::parse(&name).ok_or("not a sandbox id")?,
        image: digest().ok_or("not a digest")?,
        workspace,
        limits: Limits::default(),
        lifetime_s: 60,
        secret: Secret::new([1; 32]),
    })
}
