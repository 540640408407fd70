//! The double's jailer: takes the arguments that the real one documents and no others, finds the jail as the real one must find
//! it, and runs the double's Firecracker in a chroot, with the user and in the process namespace that it was told.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};

use rustix::thread::UnshareFlags;

use crate::faults::{Faults, Transcript, own_folder};

/// Options with a value, as documented.
const VALUES: [&str; 5] = ["--id", "--exec-file", "--uid", "--gid", "--chroot-base-dir"];
/// Options of the jailer without a value.
const FLAGS: [&str; 1] = ["--new-pid-ns"];
/// Tells the second half, which is a process of its own, where its jail is.
pub(crate) const JAIL: &str = "FAKE_FIRECRACKER_JAIL";

/// Runs the double of the jailer from its start to its end.
pub(crate) fn run(arguments: &[String]) {
    let folder = own_folder();
    let faults = Faults::read(&folder);
    let mut transcript = Transcript::open(&folder);
    transcript.add("jailer", arguments.into());
    let (own, extra) = split(arguments);
    let values = parse(own);
    assert!(!faults.jailer_fails, "told to fail");
    if faults.jailer_stalls {
        loop {
            std::thread::park();
        }
    }
    let id = &values["--id"];
    let clean = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    assert!((1..=64).contains(&id.len()) && id.chars().all(clean), "bad id {id}");
    let (uid, gid) = (number(&values["--uid"]), number(&values["--gid"]));
    assert!(uid != 0 && gid != 0, "a jail for root");
    let program = std::fs::canonicalize(&values["--exec-file"]).unwrap();
    let name = program.file_name().unwrap().to_str().unwrap();
    let base = std::fs::canonicalize(&values["--chroot-base-dir"]).unwrap();
    let root = base.join(name).join(id).join("root");
    check_jail(&base);
    std::fs::create_dir_all(&root).unwrap();
    std::fs::copy(&program, root.join(name)).unwrap();
    for place in ["", "dev", "run"] {
        std::fs::create_dir_all(root.join(place)).unwrap();
        chown(root.join(place), Some(uid), Some(gid)).unwrap();
    }
    become_firecracker(&program, &root, uid, gid, id, extra);
}

/// D7: nobody but root has ever had a way in.
fn check_jail(base: &Path) {
    let found = std::fs::symlink_metadata(base).unwrap();
    assert!(found.is_dir() && found.uid() == 0, "the jail's folder is not root's");
    assert_eq!(found.mode() & 0o777, 0o700, "the jail's folder is open to others");
}

#[expect(deprecated, reason = "safe here: this process has one thread and no descriptor that matters")]
fn become_firecracker(program: &Path, root: &Path, uid: u32, gid: u32, id: &str, extra: &[String]) {
    rustix::thread::unshare(UnshareFlags::NEWPID).unwrap();
    let child = Command::new("/proc/self/exe")
        .arg0("firecracker")
        .env_clear()
        .env(JAIL, format!("{uid}:{gid}:{}", root.display()))
        .args(["--id", id, "--start-time-us", "1", "--start-time-cpu-us", "1", "--parent-cpu-time-us", "1"])
        .args(extra)
        .spawn()
        .unwrap();
    let name = program.file_name().unwrap().to_str().unwrap();
    std::fs::write(root.join(format!("{name}.pid")), child.id().to_string()).unwrap();
    exit(0);
}

fn split(arguments: &[String]) -> (&[String], &[String]) {
    match arguments.iter().position(|argument| argument == "--") {
        Some(place) => (&arguments[..place], &arguments[place + 1..]),
        None => (arguments, &[]),
    }
}

fn parse(arguments: &[String]) -> BTreeMap<&str, String> {
    let mut values = BTreeMap::new();
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let known = VALUES.iter().chain(&FLAGS).find(|known| *known == name);
        let known = *known.unwrap_or_else(|| panic!("unknown option {name}"));
        let value = if FLAGS.contains(&known) { String::new() } else { rest.next().unwrap().clone() };
        assert!(values.insert(known, value).is_none(), "{name} is given twice");
    }
    values
}

fn number(text: &str) -> u32 {
    text.parse().unwrap()
}
