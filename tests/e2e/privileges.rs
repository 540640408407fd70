//! A server that was started as root is not root, and neither is anything that parses what strangers send.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::yard::Yard;

/// The fields of a task's status.
fn status(task: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(task.join("status")).unwrap();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect()
}

fn tasks(pid: u32) -> Vec<BTreeMap<String, String>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks.map(|task| status(&task.path())).collect()
}

/// Processes whose parent is that one, by pid and arguments.
fn children(pid: u32) -> Vec<(u32, String)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |child: &u32| {
        fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| {
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok())
                == Some(pid)
        })
    };
    let arguments = |child: u32| {
        let bytes = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        (child, String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    pids.filter(is_child).map(arguments).collect()
}

#[tokio::test]
async fn no_thread_of_the_server_has_a_privilege() {
    let yard = Yard::start().await;
    let id = yard.session().await;
    assert_eq!(yard.shell(&id, "echo in").await["stdout"], "in\n");
    let threads = tasks(yard.server_pid());
    assert!(threads.len() > 3, "{threads:?}");
    for thread in &threads {
        let field = |name: &str| thread.get(name).map_or("", String::as_str);
        for ids in ["Uid", "Gid"] {
            assert!(field(ids).split(' ').all(|id| id != "0" && !id.is_empty()), "{ids}: {}", field(ids));
        }
        assert_eq!(field("Groups"), "");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(set), "0000000000000000", "{set}");
        }
        assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1", "2"));
    }
    let wardens: Vec<_> =
        children(yard.server_pid()).into_iter().filter(|(_, line)| line.contains("warden")).collect();
    let [(warden, _)] = wardens[..] else { panic!("{wardens:?}") };
    assert!(tasks(warden).iter().all(|task| task["Uid"] == "0 0 0 0"));
    // The disk of the live sandbox, and all that drivers keep, is root's to change.
    for kept in [yard.data().join("sandboxes"), yard.data().join("jobs").join(&id).join("workspace")] {
        let found = fs::metadata(&kept).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o027), (0, 0), "{}", kept.display());
    }
    for shared in [yard.data().to_owned(), yard.data().join("jobs"), yard.data().join("jobs").join(&id)] {
        let found = fs::metadata(&shared).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o1770), "{}", shared.display());
    }
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;
}

/// The server ends, the sandbox goes on, and the next server with its own warden adopts it.
#[tokio::test]
async fn the_death_of_the_privileged_process_ends_the_server_and_no_sandbox() {
    let mut yard = Yard::start().await;
    let id = yard.session().await;
    yard.shell(&id, "echo kept > file").await;
    let (warden, _) =
        children(yard.server_pid()).into_iter().find(|(_, line)| line.contains("warden")).expect("a warden");
    let warden = rustix::process::Pid::from_raw(warden.cast_signed()).unwrap();
    rustix::process::kill_process(warden, rustix::process::Signal::KILL).unwrap();
    yard.wait_ended().await;
    yard.serve_again().await;
    yard.wait_for(&id, |status| status["sandbox"] == "live").await;
    assert_eq!(yard.shell(&id, "cat file").await["stdout"], "kept\n");
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;
}
