use serde_json::json;
use tokio::io::DuplexStream;

use super::*;

fn sandboxes(data: &Path) -> Sandboxes {
    MarkedSandboxes::of(data)
        .unwrap()
        .on_host(CgroupLayout { hierarchies: Vec::new(), others: Vec::new() }, Supply::Host)
}

/// A marker of a sandbox whose first process is this test's.
fn record(id: &str) -> SandboxRecord {
    let process = ProcessIdentity::of(std::process::id().cast_signed()).unwrap();
    let written = json!({ "id": id, "id_base": 0x4000_0000, "workspace": "/nowhere", "process": process });
    serde_json::from_value(written).unwrap()
}

fn dead(id: &str) -> SandboxRecord {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let process = ProcessIdentity::of(child.id().cast_signed()).unwrap();
    child.wait().unwrap();
    SandboxRecord { process: Some(process), ..record(id) }
}

#[test]
fn a_sandbox_is_alive_as_long_as_its_first_process() {
    let data = tempfile::tempdir().unwrap();
    let yard = sandboxes(data.path());
    let (one, two) = (record("one"), dead("two"));
    yard.records.write(&one).unwrap();
    yard.records.write(&two).unwrap();
    let found = yard.found().unwrap();
    let alive: Vec<_> = found.iter().map(|found| (found.id.as_str(), found.liveness)).collect();
    assert_eq!(alive, [("one", Liveness::Alive), ("two", Liveness::Dead)]);
    assert!(MarkedSandboxes::of(data.path()).unwrap().in_use);
    yard.records.delete(&one.id).unwrap();
    assert!(!MarkedSandboxes::of(data.path()).unwrap().in_use);
}

#[tokio::test]
async fn a_dead_sandbox_has_no_link_although_one_waits() {
    let data = tempfile::tempdir().unwrap();
    let yard = sandboxes(data.path());
    let (one, two) = (record("one"), dead("two"));
    yard.records.write(&one).unwrap();
    yard.records.write(&two).unwrap();
    let waiting = async || Ok::<DuplexStream, _>(tokio::io::duplex(1).0);
    assert!(yard.running(&one.id).unwrap().link(waiting()).await.is_ok());
    let refused = yard.running(&two.id).unwrap().link(waiting()).await;
    assert!(matches!(refused, Err(LinkError::NotRunning(id)) if id == two.id));
    assert!(yard.running(&SandboxId::parse("none").unwrap()).is_err());
    yard.wait_dead(&two.id).await;
}

#[tokio::test]
async fn a_forgotten_sandbox_gives_its_ids_back_and_has_no_marker() {
    let data = tempfile::tempdir().unwrap();
    sandboxes(data.path()).records.write(&record("one")).unwrap();
    let yard = sandboxes(data.path());
    let (id, base) = (SandboxId::parse("one").unwrap(), 0x4000_0000);
    assert!(yard.ids.take_again(base).is_err(), "a sandbox that runs has lost its ids");
    let marked = yard.marked(&id).unwrap();
    yard.forget(&id, marked.as_ref()).await.unwrap();
    assert_eq!(yard.ids.take_again(base).unwrap(), base);
    assert_eq!(yard.found().unwrap(), vec![]);
    yard.forget(&id, None).await.unwrap();
}

#[test]
fn only_what_has_no_marker_is_an_orphan() {
    let data = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let layout = CgroupLayout { hierarchies: Vec::new(), others: vec![root.path().to_owned()] };
    let yard = MarkedSandboxes::of(data.path()).unwrap().on_host(layout, Supply::Host);
    for name in ["one", "s1", "kept", "lost"] {
        fs::create_dir_all(root.path().join(format!("sandyard-{}", yard.yard)).join(name)).unwrap();
    }
    yard.records.write(&record("one")).unwrap();
    yard.records.write(&SandboxRecord { groups: Some("s1".into()), ..record("two") }).unwrap();
    let orphans = yard.orphaned_groups(|name| name == "kept").unwrap();
    assert_eq!(orphans.iter().map(Groups::name).collect::<Vec<_>>(), ["lost"]);
    let seen = ["one", "stray"].map(|id| SandboxId::parse(id).unwrap());
    assert_eq!(yard.without_marker(seen.clone()).unwrap(), [seen[1].clone()]);
}

#[tokio::test]
async fn what_a_failed_start_made_is_undone_and_what_runs_is_not() {
    let id = SandboxId::parse("one").unwrap();
    let undone = std::cell::Cell::new(0);
    let undo = async || {
        undone.set(undone.get() + 1);
        Ok(())
    };
    or_undo(&id, Ok::<_, StopError>(()), undo()).await.unwrap();
    assert_eq!(undone.get(), 0);
    let failed = Err(StopError::at(&id, "fail")(io::ErrorKind::Other.into()));
    or_undo(&id, failed, undo()).await.unwrap_err();
    assert_eq!(undone.get(), 1);
}
