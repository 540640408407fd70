//! The conformance suite against a real engine, and what only a look from the host can prove.

mod docker_yard;

use docker_yard::DockerYard;
use sandyard_sandbox::conformance::{Session, failures, lifecycle, probe, resources};
use sandyard_sandbox::driver::{Driver, FoundSandbox, Limits, Offer, StartError, Verdict};
use sandyard_sandbox::drivers::docker::{DockerConfig, DockerDriver, Step};

const NONE: Vec<String> = Vec::new();

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_drivers_contract() {
    let Some(yard) = DockerYard::open() else { return };
    let outcomes = lifecycle(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

/// The K table, with K9's leaks: descriptors that the server forgot to mark must not get in.
#[tokio::test(flavor = "multi_thread")]
async fn looks_right_from_inside() {
    let Some(yard) = DockerYard::open() else { return };
    let directory = std::fs::File::open("/").unwrap();
    let _leaked: Vec<_> = (0..50).map(|_| rustix::io::dup(&directory).unwrap()).collect();
    let outcomes = probe(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    assert!(outcomes.len() > 100, "only {} checks ran", outcomes.len());
    yard.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold() {
    let Some(yard) = DockerYard::open() else { return };
    let outcomes = resources(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

/// K21: a step that fails ends the start, names itself, and leaves nothing but the marker.
#[tokio::test(flavor = "multi_thread")]
async fn never_starts_with_less() {
    let Some(yard) = DockerYard::open() else { return };
    for step in Step::ALL {
        let driver = DockerDriver::open(DockerConfig { fail_at: Some(step), ..yard.config() }).unwrap();
        let spec = yard.subject().spec(&format!("fails-{}", step as usize), Limits::default()).unwrap();
        match driver.start(&spec).await {
            Err(StartError::Step { step: told, .. }) => {
                assert!(told.starts_with(&step.to_string()), "{step:?} was told as {told}");
            }
            other => panic!("{step:?}: {other:?}"),
        }
        yard.assert_only_markers(&step.to_string());
        driver.stop(&spec.id).await.unwrap();
        assert_eq!(driver.list().await.unwrap(), vec![], "{step:?}");
        yard.assert_clean();
    }
}

/// It really starts one, and an old runtime is used by those alone who name the driver, if at all.
#[tokio::test(flavor = "multi_thread")]
async fn says_that_it_works_here_and_how_old_it_is() {
    let Some(yard) = DockerYard::open() else { return };
    let driver = (yard.subject().open)();
    let availability = driver.availability().await;
    assert_eq!(availability.verdict, Verdict::Usable, "{availability:?}");
    assert_eq!(driver.list().await.unwrap(), vec![]);
    if availability.offer == Offer::WhenNamed {
        let strict = DockerConfig { allow_outdated_runtime: false, ..yard.config() };
        let availability = DockerDriver::open(strict).unwrap().availability().await;
        assert_eq!(availability.verdict, Verdict::Missing, "{availability:?}");
    }
    yard.assert_clean();
}

/// A server killed between create and start, and one killed before its marker was written: the next one's list removes both.
#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_removed() {
    let Some(yard) = DockerYard::open() else { return };
    let subject = yard.subject();
    let session =
        Session::start((subject.open)(), subject.spec("orphan-1", Limits::default()).unwrap()).await.unwrap();
    let running = yard.containers().pop().unwrap();
    let label = yard.engine.command(&[
        "inspect",
        "--format",
        "{{index .Config.Labels \"dev.sandyard.yard\"}}",
        &running,
    ]);
    let image = yard.engine.command(&["inspect", "--format", "{{.Image}}", &running]);
    let unborn = running.replace("orphan-1", "orphan-2");
    let label = format!("dev.sandyard.yard={}", label.trim());
    yard.engine.command(&[
        "create",
        "--network=none",
        "--name",
        &unborn,
        "--label",
        &label,
        image.trim(),
        "true",
    ]);
    std::fs::remove_dir_all(yard.data().join("sandboxes/orphan-1")).unwrap();
    drop(session);
    assert_eq!((subject.open)().list().await.unwrap(), vec![]);
    yard.assert_clean();
}

/// L16: an engine that is killed takes no sandbox with it, calls nothing dead, and is asked again when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_goes_away_is_told_and_nothing_is_called_dead() {
    let Some(mut yard) = DockerYard::open() else { return };
    if !yard.engine.is_ours() {
        return;
    }
    let subject = yard.subject();
    let spec = subject.spec("widow-1", Limits::default()).unwrap();
    let session = Session::start((subject.open)(), spec.clone()).await.unwrap();
    yard.engine.kill();
    session.machine.ping().await.unwrap();
    let driver = (subject.open)();
    let alive = FoundSandbox { id: spec.id.clone(), alive: true };
    assert_eq!(driver.list().await.unwrap(), vec![alive]);
    assert!(driver.usage(&spec.id).await.unwrap().cpu_s > 0.0);
    let second = subject.spec("widow-2", Limits::default()).unwrap();
    let error = driver.start(&second).await.unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(source.contains("no engine answers at"), "{error}: {source}");
    driver.stop(&spec.id).await.unwrap_err();
    assert!(driver.list().await.unwrap().iter().any(|found| found.id == spec.id && !found.alive));

    yard.engine.start().unwrap();
    driver.stop(&spec.id).await.unwrap();
    driver.stop(&second.id).await.unwrap();
    assert_eq!(driver.list().await.unwrap(), vec![]);
    yard.assert_clean();
}
