//! Trials of `sandyard doctor` that are cut off leave nothing: by a signal at once, by a crash until the next one. What doctor finds
//! is what a server finds.

#![expect(clippy::disallowed_methods, reason = "what another process does is looked at until a deadline")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::yard::{PATIENCE, Yard};

/// The machine of a trial: QEMU's process and the directories of its control groups.
struct TrialMachine {
    pid: i32,
    groups: Vec<PathBuf>,
}

impl TrialMachine {
    fn remains(&self) -> Vec<String> {
        let process = Path::new("/proc").join(self.pid.to_string()).join("fd");
        let alive = std::fs::read_dir(process).is_ok_and(|mut files| files.next().is_some());
        let groups = self.groups.iter().filter(|group| group.exists());
        let groups = groups.map(|group| group.display().to_string());
        groups.chain(alive.then(|| format!("process {}", self.pid))).collect()
    }
}

fn doctor(driver: &str, folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sandyard"))
        .args(["doctor", driver])
        .env("TMPDIR", folder)
        .env("SANDYARD_DATA", folder.join("data"))
        .env("SANDYARD_OCI_ALLOW_OUTDATED_RUNTIME", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for a machine that has a disk of the trial open. None if the trial ended without one: no machine can be had here.
fn machine_of(trial: &mut Child, folder: &Path) -> Option<TrialMachine> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_machine = |pid: &i32| has_machine_disk(*pid, folder);
        if let Some(pid) = pids.find(is_machine) {
            return Some(TrialMachine { pid, groups: groups_of(pid) });
        }
        if trial.try_wait().unwrap().is_some() {
            eprintln!("skipped: needs a usable qemu driver and an image");
            return None;
        }
        assert!(Instant::now() < deadline, "no machine appeared");
        std::thread::yield_now();
    }
}

fn has_machine_disk(pid: i32, folder: &Path) -> bool {
    let is_qemu =
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("qemu"));
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    is_qemu && files.flat_map(|file| std::fs::read_link(file.path())).any(|target| target.starts_with(folder))
}

/// Directories of the groups of a process, in every hierarchy.
fn groups_of(pid: i32) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let paths =
        text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).filter(|path| path.contains("sandyard-"));
    let roots: Vec<_> = std::iter::once(PathBuf::from("/sys/fs/cgroup"))
        .chain(std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path()))
        .collect();
    let at =
        |path: &str| roots.iter().map(|root| root.join(path.trim_start_matches('/'))).collect::<Vec<_>>();
    paths.flat_map(at).filter(|group| group.is_dir()).collect()
}

fn expect_nothing(folder: &TempDir, machine: &TrialMachine) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let entries = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
        let mut left: Vec<_> = entries.map(|path| path.display().to_string()).collect();
        left.extend(machine.remains());
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left behind: {left:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn send(trial: &Child, signal: Signal) {
    kill_process(Pid::from_child(trial), signal).unwrap();
}

#[test]
fn an_interrupted_doctor_removes_its_trial() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = TempDir::with_prefix("doctor-").unwrap();
        let mut trial = doctor("qemu", folder.path());
        let Some(machine) = machine_of(&mut trial, folder.path()) else { return };
        assert!(!machine.groups.is_empty());
        send(&trial, signal);
        assert_eq!(trial.wait().unwrap().code(), Some(130), "{signal:?}");
        expect_nothing(&folder, &machine);
    }
}

#[test]
fn the_next_doctor_removes_the_trial_of_a_killed_one() {
    let folder = TempDir::with_prefix("doctor-").unwrap();
    let mut killed = doctor("qemu", folder.path());
    let Some(machine) = machine_of(&mut killed, folder.path()) else { return };
    send(&killed, Signal::KILL);
    killed.wait().unwrap();
    assert!(machine.remains().len() > machine.groups.len(), "its machine goes on");
    // Whichever driver it is asked about.
    doctor("native", folder.path()).wait().unwrap();
    expect_nothing(&folder, &machine);
}

/// What doctor says of each driver that boots no machine: a machine may be too slow here, once and not again.
async fn said_of_drivers(url: &str, folder: &Path) -> Vec<Value> {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_sandyard"))
        .args(["doctor", "--json", "--url", url])
        .env("TMPDIR", folder)
        .env("SANDYARD_DATA", folder.join("data"))
        .stdin(Stdio::null())
        .output();
    let output = tokio::time::timeout(PATIENCE, output).await.unwrap().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let drivers = report["drivers"].as_array().unwrap();
    drivers.iter().filter(|driver| driver["level"] != "vm").cloned().collect()
}

#[tokio::test]
async fn doctor_and_a_running_server_say_the_same_of_drivers() {
    let folder = TempDir::with_prefix("doctor-").unwrap();
    // No server has a socket in this folder, so doctor tries the drivers itself.
    let alone = said_of_drivers("local", folder.path()).await;
    let yard = Yard::start_on("auto", &[], &[]).await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = yard.get_json("/drivers").await;
        let drivers = told["drivers"].as_array().unwrap();
        if drivers.iter().all(|driver| driver["level"] == "vm" || driver["state"] != "trying") {
            break;
        }
        assert!(Instant::now() < deadline, "a trial does not end: {told}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let told = said_of_drivers(&yard.url, folder.path()).await;
    assert!(!alone.is_empty());
    for driver in &alone {
        let same = told.iter().find(|other| other["name"] == driver["name"]);
        let same = same.unwrap_or_else(|| panic!("the server does not tell of {driver}"));
        for member in ["usable", "verdict", "offer", "level", "detail", "fix"] {
            assert_eq!(driver[member], same[member], "{member} of {}: {driver} and {same}", driver["name"]);
        }
    }
}
