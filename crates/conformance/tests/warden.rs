//! Drivers through the warden's socket: the same suite, and what a server in wrong hands can't do.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[expect(dead_code, reason = "the native driver's own suite looks at the host more closely")]
mod host_eye;
#[expect(dead_code, reason = "the native driver's own suite opens yards in more ways")]
mod native_yard;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use native_yard::{NativeYard, Need};
use sandyard_conformance::fake::{FakeDriver, FakeWorld};
use sandyard_conformance::{
    DriverSubject, ReopenDriver, SandboxSession, binding, failures, lifecycle, unread_image, workspace,
};
use sandyard_protocol::Secret;
use sandyard_sandbox::driver::{Driver, Limits, SandboxId, SandboxSpec, StartError};
use sandyard_sandbox::image::{ImageFlavour, ImageState};
use sandyard_sandbox::warden::{
    ImageStates, OpenWardenError, WardenClient, WardenService, WorkspaceName, WorkspacePlaces, pair, refuse,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const NONE: Vec<String> = Vec::new();
const DEADLINE: Duration = Duration::from_secs(30);

fn greatest() -> Limits {
    Limits { cpus: 64.0, memory_mib: 1 << 20, disk_mib: 1 << 20, pids: 1 << 20, io_mib_s: 1 << 20 }
}

/// Serves drivers on one end of a socket pair and returns the other.
fn served(
    drivers: Vec<Arc<dyn Driver>>,
    workspaces: &Path,
) -> (OwnedFd, JoinHandle<std::io::Result<()>>, watch::Sender<ImageStates>) {
    let (ours, theirs) = pair().unwrap();
    let (states, images) = watch::channel(ImageStates::new());
    let places = WorkspacePlaces::plain(workspaces);
    let service = WardenService { drivers, places, greatest_limits: greatest(), images };
    (ours, tokio::spawn(service.serve(theirs)), states)
}

/// The native driver behind a socket. Each opening is a new server with a new warden.
fn through_the_socket(subject: DriverSubject) -> DriverSubject {
    let (open, workspaces) = (subject.open, subject.workspaces.clone());
    let reopen: ReopenDriver = Box::new(move || {
        let (socket, _, _) = served(vec![open()], &workspaces);
        let places = WorkspacePlaces::plain(&workspaces);
        tokio::task::block_in_place(|| {
            let client = tokio::runtime::Handle::current().block_on(WardenClient::open(socket, places));
            client.unwrap().drivers().remove(0)
        })
    });
    DriverSubject { open: reopen, ..subject }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_drivers_contract() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = lifecycle(&through_the_socket(yard.subject())).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_bound_after_the_start() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = binding(&through_the_socket(yard.subject())).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_misleads_nobody() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = workspace(&through_the_socket(yard.subject())).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// The sandbox outlives its warden, and its disk is free after the stop by another.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_warden_adopts_what_the_last_one_left() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let subject = through_the_socket(yard.subject());
    let spec = subject.spec("left-1", Limits::default()).unwrap();
    let id = spec.id.clone();
    drop(SandboxSession::start((subject.open)(), spec).await.unwrap());
    let driver = (subject.open)();
    let found = driver.list().await.unwrap();
    assert_eq!(found.iter().map(|found| &found.id).collect::<Vec<_>>(), [&id]);
    tokio::time::timeout(DEADLINE, driver.next_link(&id)).await.expect("keeper dials again").unwrap();
    driver.stop(&id).await.unwrap();
    assert!(yard.sandbox_disks().is_empty());
}

fn fake(folder: &Path) -> Arc<dyn Driver> {
    Arc::new(FakeDriver::new(FakeWorld::new(folder)))
}

fn spec(workspaces: &Path, name: &str) -> SandboxSpec {
    SandboxSpec {
        id: SandboxId::parse(name).unwrap(),
        image: unread_image(),
        workspace: workspaces.join(name),
        limits: Limits::default(),
        lifetime_s: 60,
        secret: Secret::new([7; 32]),
    }
}

#[tokio::test]
async fn limits_and_paths_of_a_server_are_checked() {
    let home = tempfile::tempdir().unwrap();
    let (socket, _, _) = served(vec![fake(home.path())], home.path());
    let client = WardenClient::open(socket, WorkspacePlaces::plain(home.path())).await.unwrap();
    let driver = client.drivers().remove(0);
    driver.start(&spec(home.path(), "fits")).await.unwrap();
    for limits in [
        Limits { cpus: 1e9, ..Limits::default() },
        Limits { cpus: 0.0, ..Limits::default() },
        Limits { memory_mib: u64::MAX, ..Limits::default() },
        Limits { disk_mib: u64::MAX, ..Limits::default() },
        Limits { pids: u64::MAX, ..Limits::default() },
    ] {
        let refused = driver.start(&SandboxSpec { limits, ..spec(home.path(), "greedy") }).await;
        assert!(matches!(refused, Err(StartError::Step { .. })), "{limits:?}: {refused:?}");
    }
    let elsewhere = SandboxSpec { workspace: "/etc".into(), ..spec(home.path(), "elsewhere") };
    assert!(matches!(driver.start(&elsewhere).await, Err(StartError::Step { .. })));
    assert_eq!(driver.list().await.unwrap().len(), 1);
    client.remove_workspace(&WorkspaceName::parse("fits").unwrap()).await.unwrap();
    assert!(!home.path().join("fits").exists());
}

/// A name with a slash, a descriptor, a number twice, and bytes that are no message: each ends the warden.
#[tokio::test]
async fn a_server_that_breaks_the_protocol_loses_its_warden() {
    let home = tempfile::tempdir().unwrap();
    let traversal = br#"{"Call":{"number":1,"call":{"RemoveWorkspace":{"name":"../../etc"}}}}"#.to_vec();
    let id = br#"{"Call":{"number":1,"call":{"Driver":{"driver":0,"call":{"Stop":{"id":"a/b"}}}}}}"#.to_vec();
    let twice = br#"{"Call":{"number":1,"call":{"Driver":{"driver":0,"call":{"WaitDead":{"id":"fits"}}}}}}"#;
    for packets in
        [vec![b"garbage".to_vec()], vec![traversal], vec![id], vec![twice.to_vec(), twice.to_vec()]]
    {
        let driver = fake(home.path());
        driver.start(&spec(home.path(), "fits")).await.unwrap();
        let (socket, service, _) = served(vec![driver], home.path());
        for packet in &packets {
            rustix::net::send(&socket, packet, rustix::net::SendFlags::empty()).unwrap();
        }
        let ended = tokio::time::timeout(DEADLINE, service).await.expect("it goes on").unwrap();
        assert!(ended.is_err(), "{}", String::from_utf8_lossy(&packets[0]));
    }
}

#[tokio::test]
async fn a_server_learns_of_images_refusals_and_the_end() {
    let home = tempfile::tempdir().unwrap();
    let places = || WorkspacePlaces::plain(home.path());
    let (socket, service, states) = served(vec![fake(home.path())], home.path());
    let client = WardenClient::open(socket, places()).await.unwrap();
    let mut images = client.images();
    assert!(images.borrow_and_update().is_empty());
    let state = ImageState::Preparing { percent: 7, step: "unpack".to_owned() };
    states.send_replace([(ImageFlavour::Base, state.clone())].into());
    tokio::time::timeout(DEADLINE, images.changed()).await.expect("no change").unwrap();
    assert_eq!(images.borrow().get(&ImageFlavour::Base), Some(&state));
    // The driver answers what it answers without a socket.
    let (direct, remote) = (fake(home.path()), client.drivers().remove(0));
    assert_eq!(
        (remote.name(), remote.isolation(), remote.binds()),
        (direct.name(), direct.isolation(), direct.binds())
    );
    assert_eq!(remote.memory_mib(&Limits::default()), direct.memory_mib(&Limits::default()));
    service.abort();
    tokio::time::timeout(DEADLINE, client.closed()).await.expect("the end goes unnoticed");

    let (ours, theirs) = pair().unwrap();
    refuse(theirs, "no control groups".to_owned()).await.unwrap();
    let refused = WardenClient::open(ours, places()).await;
    assert!(matches!(refused, Err(OpenWardenError::Refused(reason)) if reason == "no control groups"));
}

/// A driver that can be opened only after the server came has no boot time before.
#[tokio::test]
async fn a_report_brings_the_boot_time_of_a_driver_that_opened_late() {
    let home = tempfile::tempdir().unwrap();
    let world = FakeWorld::new(home.path());
    let (socket, _, _) = served(vec![Arc::new(FakeDriver::new(world.clone()))], home.path());
    let client = WardenClient::open(socket, WorkspacePlaces::plain(home.path())).await.unwrap();
    let driver = client.drivers().remove(0);
    assert_eq!(driver.boot_time(), Duration::ZERO);
    world.script(|faults| faults.boot_time = Duration::from_secs(60));
    driver.availability().await;
    assert_eq!(driver.boot_time(), Duration::from_secs(60));
}
