//! The conformance suite against the driver of OCI runtimes with runc and crun, and checks that only the host
//! can make.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod host_eye;
mod oci_yard;

use std::collections::BTreeSet;
use std::time::Duration;

use oci_yard::OciYard;
use sandyard_conformance::{
    FailingStep, SandboxSession, binding, failing_start, failures, lifecycle, neighbours, probe, resources,
    shown_size, workspace,
};
use sandyard_sandbox::driver::{Driver, DriverOpenError, DriverVerdict, Limits, Liveness, Offer, StartError};
use sandyard_sandbox::drivers::oci::{OciConfig, OciDriver, OciStep};

const NONE: Vec<String> = Vec::new();

/// Runs the same tests with each runtime.
macro_rules! with_every_runtime {
    ($($test:ident),* $(,)?) => {
        with_every_runtime!(runc: $($test),*);
        with_every_runtime!(crun: $($test),*);
    };
    ($runtime:ident: $($test:ident),*) => {
        mod $runtime {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test(stringify!($runtime)).await;
                }
            )*
        }
    };
}

with_every_runtime!(
    keeps_the_drivers_contract,
    looks_right_from_inside,
    limits_hold,
    programs_see_the_limits,
    limits_are_bound_after_the_start,
    neighbours_are_strangers,
    a_workspace_misleads_nobody,
    a_set_user_id_file_of_the_image_gives_nothing,
    every_task_is_confined,
    all_jobs_together_leave_processes_to_the_host,
    disks_are_read_at_a_limited_rate,
    refuses_hostile_images,
    says_that_it_works_here_and_when_it_is_outdated,
    leaves_nothing_behind,
    a_start_that_nobody_waits_for_is_removed_by_stop,
    a_container_that_was_never_started_is_not_alive,
    orphans_are_removed,
    never_starts_with_less,
);

async fn keeps_the_drivers_contract(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let outcomes = lifecycle(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// The K table, with K9's leaks: descriptors that the server forgot to mark must not get in.
async fn looks_right_from_inside(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let directory = std::fs::File::open("/").unwrap();
    let _leaked: Vec<_> = (0..50).map(|_| rustix::io::dup(&directory).unwrap()).collect();
    let outcomes = probe(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    assert!(outcomes.len() > 100, "only {} checks ran", outcomes.len());
}

async fn limits_hold(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let outcomes = resources(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

async fn programs_see_the_limits(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let outcomes = shown_size(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

async fn limits_are_bound_after_the_start(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let outcomes = binding(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// N12, N13, R12, R16 and S8: two sandboxes at once know nothing of each other, and the remains of the last
/// one are gone.
async fn neighbours_are_strangers(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let outcomes = neighbours(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// F1 to F4, F10 and R14: nothing that a job puts in its workspace misleads the host.
async fn a_workspace_misleads_nobody(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let outcomes = workspace(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

async fn every_task_is_confined(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    host_eye::assert_every_task_is_confined(&yard.subject(), &yard.data()).await;
}

async fn all_jobs_together_leave_processes_to_the_host(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    host_eye::assert_processes_are_bounded(&yard.subject(), &yard.data()).await;
}

async fn disks_are_read_at_a_limited_rate(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    host_eye::assert_disks_are_limited(&yard.subject(), &yard.data()).await;
}

async fn a_set_user_id_file_of_the_image_gives_nothing(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    host_eye::assert_set_user_id_means_nothing(&yard.subject(), yard.home()).await;
}

/// K21: a step that fails ends the start, names itself, and leaves nothing but the marker.
async fn never_starts_with_less(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    for (number, step) in OciStep::ALL.into_iter().enumerate() {
        let driver = OciDriver::open(OciConfig { fail_at: Some(step), ..yard.config() }).unwrap();
        let failing = FailingStep { number, text: &step.to_string() };
        let outcomes = failing_start(&yard.subject(), &driver, failing, |_| yard.leftovers()).await.unwrap();
        assert_eq!(failures(&outcomes), NONE);
        yard.assert_clean().await;
    }
}

/// K11 and K12: an image whose mount points lead elsewhere does not start, and nothing outside it is touched.
async fn refuses_hostile_images(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let subject = yard.subject();
    let driver = (subject.open)();
    for (number, place) in ["proc", "dev", "run", "workspace", "home/agent"].iter().enumerate() {
        let image = host_eye::bare_image(yard.home());
        let canary = tempfile::tempdir().unwrap();
        std::fs::remove_dir_all(image.path().join(place)).unwrap();
        std::os::unix::fs::symlink(canary.path(), image.path().join(place)).unwrap();
        let mut spec = subject.spec(&format!("hostile-{number}"), Limits::default()).unwrap();
        spec.image = subject.images.add(image.path());
        let outcome = driver.start(&spec).await;
        assert!(matches!(outcome, Err(StartError::Step { .. })), "{place}: {outcome:?}");
        assert_eq!(std::fs::read_dir(canary.path()).unwrap().count(), 0, "{place}");
        assert!(host_eye::groups(&yard.data()).is_empty(), "{place} left groups");
        driver.stop(&spec.id).await.unwrap();
    }
}

/// An outdated runtime is used where that is allowed, and then by those who name the driver alone.
async fn says_that_it_works_here_and_when_it_is_outdated(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let driver = OciDriver::open(yard.config()).unwrap();
    let availability = driver.availability().await;
    assert_eq!(availability.verdict, DriverVerdict::Usable, "{availability:?}");
    assert_eq!(driver.list().await.unwrap(), vec![]);
    let strict = OciDriver::open(OciConfig { allow_outdated_runtime: false, ..yard.config() });
    match availability.offer {
        Offer::Always => drop(strict.unwrap()),
        _ => assert!(matches!(strict, Err(DriverOpenError::Unusable { .. })), "{strict:?}"),
    }
}

/// L20: many short sandboxes leave nothing: no group, mount, loop device, link directory, container or process.
async fn leaves_nothing_behind(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let subject = yard.subject();
    let driver = (subject.open)();
    let mut homes = BTreeSet::new();
    for turn in 0..6 {
        let spec = subject.spec(&format!("short-{turn}"), Limits::default()).unwrap();
        driver.start(&spec).await.unwrap();
        homes.extend(host_eye::group_homes(&yard.data()));
        // Sometimes in the middle of its boot, sometimes later.
        tokio::time::sleep(Duration::from_millis(turn * 6)).await;
        driver.stop(&spec.id).await.unwrap();
        assert_eq!(host_eye::loop_devices_below(&yard.workspaces()), NONE);
        assert!(!yard.run().join(spec.id.as_str()).exists());
    }
    drop(driver);
    yard.assert_clean().await;
    assert!(!homes.is_empty() && homes.iter().all(|home| !home.exists()), "{homes:?}");
}

/// A caller that goes away in the middle of a start leaves nothing that `stop` does not remove.
async fn a_start_that_nobody_waits_for_is_removed_by_stop(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let subject = yard.subject();
    let driver = (subject.open)();
    for turn in 0..6 {
        let spec = subject.spec(&format!("left-{turn}"), Limits::default()).unwrap();
        let patience = Duration::from_millis(4 + turn * 15);
        let _ = tokio::time::timeout(patience, driver.start(&spec)).await;
        driver.stop(&spec.id).await.unwrap();
    }
    assert_eq!(driver.list().await.unwrap(), vec![]);
    drop(driver);
    yard.assert_clean().await;
}

/// A server killed between `create` and `start` leaves a container whose process waits: it counts as dead, and is removed.
async fn a_container_that_was_never_started_is_not_alive(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let subject = yard.subject();
    let spec = subject.spec("waits-1", Limits::default()).unwrap();
    let killed = OciDriver::open(yard.config_that_hangs()).unwrap();
    let start = tokio::spawn(async move { killed.start(&spec).await.map(|()| spec) });
    let groups =
        || host_eye::groups(&yard.data()).iter().any(|group| !host_eye::processes_in(group).is_empty());
    while !groups() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let next = (subject.open)();
    let found = next.list().await.unwrap();
    assert_eq!(found.iter().map(|found| found.liveness).collect::<Vec<_>>(), [Liveness::Dead]);
    next.stop(&found[0].id).await.unwrap();
    assert_eq!(next.list().await.unwrap(), vec![]);
    assert_eq!(host_eye::list(yard.data().join("state")), Vec::<std::path::PathBuf>::new());
    start.abort();
}

/// The driver is killed (dropped without stop) and its marker lost: the next one's list removes container and groups.
async fn orphans_are_removed(runtime: &'static str) {
    let Some(yard) = OciYard::open(runtime).await else { return };
    let subject = yard.subject();
    let session =
        SandboxSession::start((subject.open)(), subject.spec("orphan-1", Limits::default()).unwrap())
            .await
            .unwrap();
    let homes = host_eye::group_homes(&yard.data());
    std::fs::remove_dir_all(yard.data().join("sandboxes/orphan-1")).unwrap();
    drop(session);
    let driver = (subject.open)();
    assert_eq!(driver.list().await.unwrap(), vec![]);
    drop(driver);
    yard.assert_clean().await;
    assert!(homes.iter().all(|home| !home.exists()), "{homes:?}");
}
