//! The conformance suite against real engines, Docker's and Podman's, and checks that only the host can make.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod docker_yard;

use docker_yard::{DockerYard, Make};
use sandyard_conformance::{
    FailingStep, SandboxSession, binding, failing_start, failures, lifecycle, neighbours, probe, resources,
    shown_size, workspace,
};
use sandyard_sandbox::driver::{
    Driver, DriverVerdict, FoundSandbox, Limits, Liveness, LocalImages, Offer, StartError,
};
use sandyard_sandbox::drivers::docker::{
    DockerConfig, DockerDriver, DockerStep, LoadedImage, loaded_images, remove_image,
};
use serde_json::json;

const NONE: Vec<String> = Vec::new();

/// Runs the same tests on each engine.
macro_rules! on_every_engine {
    ($($test:ident),* $(,)?) => {
        on_every_engine!(docker, Make::Docker, $($test),*);
        on_every_engine!(podman, Make::Podman, $($test),*);
    };
    ($engine:ident, $make:expr, $($test:ident),*) => {
        mod $engine {
            use super::Make;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test($make).await;
                }
            )*
        }
    };
}

on_every_engine!(
    keeps_the_drivers_contract,
    looks_right_from_inside,
    limits_hold,
    programs_see_the_limits,
    limits_are_bound_after_the_start,
    neighbours_are_strangers,
    a_workspace_misleads_nobody,
    says_that_it_works_here_and_how_old_it_is,
    orphans_are_removed,
    an_engine_that_goes_away_is_told_and_nothing_is_called_dead,
    an_engine_that_is_not_started_yet_is_told_and_asked_again,
    images_are_listed_and_removed_unless_a_container_uses_them,
    never_starts_with_less,
);

async fn keeps_the_drivers_contract(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let outcomes = lifecycle(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

/// The K table, with K9's leaks: descriptors that the server forgot to mark must not get in.
async fn looks_right_from_inside(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let directory = std::fs::File::open("/").unwrap();
    let _leaked: Vec<_> = (0..50).map(|_| rustix::io::dup(&directory).unwrap()).collect();
    let outcomes = probe(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    assert!(outcomes.len() > 100, "only {} checks ran", outcomes.len());
    yard.assert_clean();
}

async fn limits_are_bound_after_the_start(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let outcomes = binding(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

async fn limits_hold(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let outcomes = resources(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

async fn programs_see_the_limits(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let outcomes = shown_size(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

/// N12, N13, R12, R16 and S8: two sandboxes at once know nothing of each other, and the remains of the last
/// one are gone.
async fn neighbours_are_strangers(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let outcomes = neighbours(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

/// F1 to F4, F10 and R14: nothing that a job puts in its workspace misleads the host.
async fn a_workspace_misleads_nobody(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let outcomes = workspace(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

/// D1, in the engine's own words; and K2 and K7 from the host: no task of a sandbox is root there, and every one is filtered.
#[tokio::test(flavor = "multi_thread")]
async fn the_engine_gives_the_least_and_every_task_is_confined() {
    let Some(yard) = DockerYard::open(Make::Docker) else { return };
    let subject = yard.subject();
    let spec = subject.spec("least-1", Limits::default()).unwrap();
    let session = SandboxSession::start((subject.open)(), spec).await.unwrap();
    let name = yard.containers().pop().unwrap();
    let said: serde_json::Value = serde_json::from_str(&yard.engine.command(&["inspect", &name])).unwrap();
    let (host, config) = (&said[0]["HostConfig"], &said[0]["Config"]);
    for (member, wanted) in [
        ("NetworkMode", json!("none")),
        ("ReadonlyRootfs", json!(true)),
        ("Privileged", json!(false)),
        ("IpcMode", json!("private")),
        ("PidMode", json!("")),
        ("CapDrop", json!(["ALL"])),
        ("PidsLimit", json!(64)),
        ("AutoRemove", json!(false)),
        ("PublishAllPorts", json!(false)),
    ] {
        assert_eq!(host[member], wanted, "{member}");
    }
    assert_eq!(host["RestartPolicy"]["Name"], "no");
    assert_eq!(host["Memory"], host["MemorySwap"]);
    assert!(host["LogConfig"]["Config"]["max-size"].is_string(), "{host}");
    let options: Vec<_> =
        host["SecurityOpt"].as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
    assert!(options.contains(&"no-new-privileges") && options.iter().any(|one| one.starts_with("seccomp={")));
    assert!(host["Devices"].as_array().is_none_or(Vec::is_empty), "{host}");
    assert!(!said[0]["Mounts"].to_string().contains("docker.sock"), "{said}");
    // Engines add one.
    assert!(config["Env"].as_array().unwrap().iter().all(|one| one.as_str().unwrap().starts_with("PATH=")));

    let group = name.replacen("sandyard-", "/sandyard-", 1).replacen("-least-1", "/least-1/job", 1);
    let tasks = tasks_in(&[said[0]["Id"].as_str().unwrap(), &group]);
    assert!(tasks.len() >= 3, "init, keeper and spawner: {tasks:?}");
    for [uid, effective, privileges, filter] in &tasks {
        assert!(uid.parse::<u32>().unwrap() >= 65_536, "{tasks:?}");
        assert_eq!([effective.as_str(), privileges, filter], ["0000000000000000", "1", "2"], "{tasks:?}");
    }
    session.stop().await.unwrap();
    yard.assert_clean();
}

/// D2: containers that bear another yard's label, or a name like ours without our label, are left alone.
#[tokio::test(flavor = "multi_thread")]
async fn containers_of_others_are_left_alone() {
    let Some(yard) = DockerYard::open(Make::Docker) else { return };
    let subject = yard.subject();
    let spec = subject.spec("ours-1", Limits::default()).unwrap();
    let session = SandboxSession::start((subject.open)(), spec).await.unwrap();
    let ours = yard.containers().pop().unwrap();
    let image = yard.engine.command(&["inspect", "--format", "{{.Image}}", &ours]);
    let (unlabelled, others) = (ours.replace("ours-1", "spoof-1"), "sandyard-elsewhere-ours-1");
    let create = |name: &str, label: &str| {
        yard.engine.command(&[
            "create",
            "--network=none",
            "--name",
            name,
            "--label",
            label,
            image.trim(),
            "true",
        ]);
    };
    create(&unlabelled, "dev.example=1");
    create(others, "dev.sandyard.yard=elsewhere");
    let driver = (subject.open)();
    let alive = FoundSandbox { id: session.spec.id.clone(), liveness: Liveness::Alive };
    assert_eq!(driver.list().await.unwrap(), vec![alive]);
    session.stop().await.unwrap();
    assert_eq!(driver.list().await.unwrap(), vec![]);
    for name in [unlabelled.as_str(), others] {
        yard.engine.command(&["inspect", name]);
        yard.engine.command(&["rm", name]);
    }
    yard.assert_clean();
}

/// User, effective capabilities, no-new-privileges and filter of every task in a control group whose path has one of these in it.
fn tasks_in(groups: &[&str]) -> Vec<[String; 4]> {
    let list = |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten();
    let pids = list("/proc").filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let is_there = |text: String| groups.iter().any(|group| text.contains(group));
    let inside =
        pids.filter(|process| std::fs::read_to_string(process.path().join("cgroup")).is_ok_and(is_there));
    let tasks = inside.flat_map(|process| list(&process.path().join("task").display().to_string()));
    let look = |status: String| {
        ["Uid:", "CapEff:", "NoNewPrivs:", "Seccomp:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().next().unwrap_or_default().to_owned()
        })
    };
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok()).map(look).collect()
}

/// K21: a step that fails ends the start, names itself, and leaves nothing but the marker.
async fn never_starts_with_less(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    for (number, step) in DockerStep::ALL.into_iter().enumerate() {
        let driver = DockerDriver::open(DockerConfig { fail_at: Some(step), ..yard.config() }).unwrap();
        let failing = FailingStep { number, text: &step.to_string() };
        let outcomes = failing_start(&yard.subject(), &driver, failing, |_| yard.leftovers()).await.unwrap();
        assert_eq!(failures(&outcomes), NONE);
        yard.assert_clean();
    }
}

/// Checks that availability starts a sandbox, and that only jobs that name the driver get an old runtime.
async fn says_that_it_works_here_and_how_old_it_is(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let driver = (yard.subject().open)();
    let availability = driver.availability().await;
    assert_eq!(availability.verdict, DriverVerdict::Usable, "{availability:?}");
    assert_eq!(driver.list().await.unwrap(), vec![]);
    if availability.offer == Offer::WhenNamed {
        let strict = DockerConfig { allow_outdated_runtime: false, ..yard.config() };
        let availability = DockerDriver::open(strict).unwrap().availability().await;
        assert_eq!(availability.verdict, DriverVerdict::Missing, "{availability:?}");
    }
    yard.assert_clean();
}

/// A server killed between create and start, and one killed before its marker was written: the next one's list removes both.
async fn orphans_are_removed(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let subject = yard.subject();
    let session =
        SandboxSession::start((subject.open)(), subject.spec("orphan-1", Limits::default()).unwrap())
            .await
            .unwrap();
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
async fn an_engine_that_goes_away_is_told_and_nothing_is_called_dead(make: Make) {
    let Some(mut yard) = DockerYard::open(make) else { return };
    if !yard.engine.is_ours() {
        return;
    }
    let subject = yard.subject();
    let spec = subject.spec("widow-1", Limits::default()).unwrap();
    let session = SandboxSession::start((subject.open)(), spec.clone()).await.unwrap();
    yard.engine.kill();
    session.machine.ping().await.unwrap();
    let driver = (subject.open)();
    let alive = FoundSandbox { id: spec.id.clone(), liveness: Liveness::Alive };
    assert_eq!(driver.list().await.unwrap(), vec![alive]);
    assert!(driver.usage(&spec.id).await.unwrap().cpu_s > 0.0);
    let second = subject.spec("widow-2", Limits::default()).unwrap();
    let error = driver.start(&second).await.unwrap_err();
    assert!(matches!(error, StartError::Unusable { .. }), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("no engine answers at") && told.contains("Connection refused"), "{told}");
    // Nothing was made, so nothing waits for the engine to be removed.
    driver.stop(&second.id).await.unwrap();
    driver.stop(&spec.id).await.unwrap_err();
    assert!(
        driver
            .list()
            .await
            .unwrap()
            .iter()
            .any(|found| found.id == spec.id && found.liveness == Liveness::Dead)
    );

    yard.engine.start().unwrap();
    driver.stop(&spec.id).await.unwrap();
    assert_eq!(driver.list().await.unwrap(), vec![]);
    yard.assert_clean();
    // Nor does the test's own engine leave anything beside a container that it lost sight of.
    let home = yard.engine.home.clone();
    drop((session, yard));
    assert_eq!(docker_yard::engine::attendants(&home), vec![]);
}

/// A stopped engine does not make the driver unusable: once somebody starts it, the server need not be
/// restarted.
async fn an_engine_that_is_not_started_yet_is_told_and_asked_again(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    if !yard.engine.is_ours() {
        return;
    }
    let socket = yard.data().with_extension("sock");
    let driver = DockerDriver::open(DockerConfig { socket: socket.clone(), ..yard.config() }).unwrap();
    let availability = driver.availability().await;
    assert_eq!(availability.verdict, DriverVerdict::Missing);
    assert!(availability.detail.contains("no engine answers at"), "{}", availability.detail);
    std::os::unix::fs::symlink(&yard.engine.socket, &socket).unwrap();
    let availability = driver.availability().await;
    assert_eq!(availability.verdict, DriverVerdict::Usable, "{availability:?}");
    yard.assert_clean();
}

async fn images_are_listed_and_removed_unless_a_container_uses_them(make: Make) {
    let Some(yard) = DockerYard::open(make) else { return };
    let subject = yard.subject();
    let session = SandboxSession::start((subject.open)(), subject.spec("user-1", Limits::default()).unwrap())
        .await
        .unwrap();
    let digest = subject.images.probe_image().unwrap().to_string();
    let loaded = loaded_images(&yard.engine.socket).await.unwrap();
    let image = loaded.iter().find(|image| image.digest.as_str() == digest).unwrap();
    assert_eq!(image.flavour, "base");
    assert!(image.name.contains("sandyard/base:") && image.size_bytes > 0, "{image:?}");
    let refused = remove_image(&yard.engine.socket, image).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists, "{refused}");
    (subject.open)().stop(&session.spec.id).await.unwrap();
    yard.assert_clean();
    // Another one of ours: the base itself would have to be loaded again by the next test.
    let (name, other) = ("sandyard/base:old", "0".repeat(64));
    yard.engine.make_image(name, &format!("dev.sandyard.image={other}"));
    let old = |loaded: Vec<LoadedImage>| loaded.into_iter().find(|image| image.digest.as_str() == other);
    let image = old(loaded_images(&yard.engine.socket).await.unwrap()).unwrap();
    remove_image(&yard.engine.socket, &image).await.unwrap();
    assert_eq!(old(loaded_images(&yard.engine.socket).await.unwrap()), None);
}
