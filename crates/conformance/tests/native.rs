//! The conformance suite against the native driver, and checks that only the host can make.

mod host_eye;
mod native_yard;

use std::collections::BTreeSet;
use std::time::Duration;

use native_yard::{NativeYard, Need};
use sandyard_conformance::{
    FailingStep, SandboxSession, binding, failing_start, failures, lifecycle, neighbours, probe, resources,
    shown_size, workspace,
};
use sandyard_sandbox::driver::{Limits, SandboxId, StartError};
use sandyard_sandbox::drivers::native::NativeStep;

const NONE: Vec<String> = Vec::new();

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_drivers_contract() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = lifecycle(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// The K table, with K9's leaks: descriptors that the server forgot to mark must not get in.
#[tokio::test(flavor = "multi_thread")]
async fn looks_right_from_inside() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let directory = std::fs::File::open("/").unwrap();
    let _leaked: Vec<_> = (0..50).map(|_| rustix::io::dup(&directory).unwrap()).collect();
    let outcomes = probe(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    assert!(outcomes.len() > 100, "only {} checks ran", outcomes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = resources(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_see_the_limits() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = shown_size(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_bound_after_the_start() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = binding(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// N12, N13, R12, R16 and S8: two sandboxes at once know nothing of each other, and the remains of the last
/// one are gone.
#[tokio::test(flavor = "multi_thread")]
async fn neighbours_are_strangers() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = neighbours(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// F1 to F4, F10 and R14: nothing that a job puts in its workspace misleads the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_misleads_nobody() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let outcomes = workspace(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// K21: a step that fails ends the start, names itself, and leaves nothing but the marker.
#[tokio::test(flavor = "multi_thread")]
async fn never_starts_with_less() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    for (number, step) in NativeStep::ALL.into_iter().enumerate() {
        let driver = yard.driver_failing_at(step);
        let failing = FailingStep { number, text: &step.to_string() };
        // Groups of parked slots may be there, but no process of the failed start may be in them.
        let leftovers = |_: &SandboxId| {
            let groups = host_eye::groups(&yard.data()).into_iter();
            groups
                .filter(|group| !host_eye::processes_in(group).is_empty())
                .map(|group| format!("{group:?}"))
                .collect()
        };
        let outcomes = failing_start(&yard.subject(), &driver, failing, leftovers).await.unwrap();
        assert_eq!(failures(&outcomes), NONE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_user_id_file_of_the_image_gives_nothing() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    host_eye::assert_set_user_id_means_nothing(&yard.subject(), yard.home()).await;
}

/// K11 and K12: an image whose mount points lead elsewhere does not start, and nothing outside it is touched.
#[tokio::test(flavor = "multi_thread")]
async fn refuses_hostile_images() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let subject = yard.subject();
    let driver = (subject.open)();
    for (number, place) in
        ["proc", "dev", "run", "workspace", "home/agent", "tmp", "var/tmp"].iter().enumerate()
    {
        let image = host_eye::bare_image(yard.home());
        let canary = tempfile::tempdir().unwrap();
        std::fs::remove_dir_all(image.path().join(place)).unwrap();
        std::os::unix::fs::symlink(canary.path(), image.path().join(place)).unwrap();
        let mut spec = subject.spec(&format!("hostile-{number}"), Limits::default()).unwrap();
        spec.image = subject.images.add(image.path());
        let outcome = driver.start(&spec).await;
        assert!(matches!(outcome, Err(StartError::Step { .. })), "{place}: {outcome:?}");
        assert_eq!(std::fs::read_dir(canary.path()).unwrap().count(), 0, "{place}");
        driver.stop(&spec.id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn says_that_it_works_here() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let driver = (yard.subject().open)();
    let availability = driver.availability().await;
    assert!(availability.may_start(), "{availability:?}");
    assert_eq!(driver.list().await.unwrap(), vec![]);
}

/// K2, K7 and R16, from the host: no task of a sandbox is root there, every one of the job's is filtered, and two sandboxes
/// share no user.
#[tokio::test(flavor = "multi_thread")]
async fn every_task_is_confined() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    host_eye::assert_every_task_is_confined(&yard.subject(), &yard.data()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_jobs_together_leave_processes_to_the_host() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    host_eye::assert_processes_are_bounded(&yard.subject(), &yard.data()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_are_read_at_a_limited_rate() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    host_eye::assert_disks_are_limited(&yard.subject(), &yard.data()).await;
}

/// A killed launcher takes no sandbox with it, and the next start has another.
#[tokio::test(flavor = "multi_thread")]
async fn survives_its_launchers_death() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let subject = yard.subject();
    let one = SandboxSession::start((subject.open)(), subject.spec("widow-1", Limits::default()).unwrap())
        .await
        .unwrap();
    let killed = native_yard::kill_launchers();
    assert!(killed >= 1, "no launcher was found");
    one.machine.ping().await.unwrap();
    for turn in 2..5 {
        let spec = subject.spec(&format!("widow-{turn}"), Limits::default()).unwrap();
        SandboxSession::start(one.driver.clone(), spec).await.unwrap().stop().await.unwrap();
    }
    one.stop().await.unwrap();
}

/// L20: many short sandboxes leave nothing: no group, mount, loop device, link directory or process.
#[tokio::test(flavor = "multi_thread")]
async fn leaves_nothing_behind() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let subject = yard.subject();
    let driver = (subject.open)();
    let mut homes = BTreeSet::new();
    for turn in 0..12 {
        let spec = subject.spec(&format!("short-{turn}"), Limits::default()).unwrap();
        driver.start(&spec).await.unwrap();
        homes.extend(host_eye::group_homes(&yard.data()));
        // Sometimes in the middle of its boot, sometimes later.
        tokio::time::sleep(Duration::from_millis(turn * 3)).await;
        driver.stop(&spec.id).await.unwrap();
        assert!(yard.sandbox_disks().is_empty(), "{:?}", yard.sandbox_disks());
        assert!(!yard.run().join(spec.id.as_str()).exists());
    }
    assert_eq!(driver.list().await.unwrap(), vec![]);
    yard.remove_workspaces();
    drop(driver);
    yard.assert_clean().await;
    assert!(!homes.is_empty() && homes.iter().all(|home| !home.exists()), "{homes:?}");
}

/// The driver is killed (dropped without stop), groups without a marker are left: the next one's list removes them.
#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_removed() {
    let Some(yard) = NativeYard::open(Need::Image) else { return };
    let subject = yard.subject();
    let spec = subject.spec("orphan-1", Limits::default()).unwrap();
    let session = SandboxSession::start((subject.open)(), spec).await.unwrap();
    std::fs::remove_dir_all(yard.data().join("sandboxes/orphan-1")).unwrap();
    drop(session);
    let driver = (subject.open)();
    assert_eq!(driver.list().await.unwrap(), vec![]);
    assert!(yard.sandbox_disks().is_empty());
    yard.remove_workspaces();
    drop(driver);
    yard.assert_clean().await;
}
