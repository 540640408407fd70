//! Choice and truth: which driver a job gets, what its status says of it, and that it never gets less.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_sandbox::driver::{Availability, Driver, DriverVerdict, IsolationLevel, Offer};
use sandyard_server::app::{
    AppError, ErrorCode, FailureCode, Floor, JobFilter, JobState, NewJob, SandboxState,
};
use sandyard_server::auth::Caller;
use sandyard_server::config::ServerConfig;
use sandyard_testkit::{PosingDriver, TestError, TestYard, session, shell};

const VM: Floor = Floor::Level(IsolationLevel::Vm);

/// The drivers of a machine, by name.
struct Machine {
    firecracker: Arc<PosingDriver>,
    native: Arc<PosingDriver>,
    docker: Arc<PosingDriver>,
    qemu: Arc<PosingDriver>,
}

impl Machine {
    /// Creates a machine without KVM: Firecracker is missing and QEMU slow.
    fn without_kvm() -> Self {
        let driver = |name, level| PosingDriver::new(name, level).unwrap();
        let machine = Self {
            firecracker: driver("firecracker", IsolationLevel::Vm),
            native: driver("native", IsolationLevel::Container),
            docker: driver("docker", IsolationLevel::Container),
            qemu: driver("qemu", IsolationLevel::Vm),
        };
        let no_kvm = Availability::missing("no usable /dev/kvm", "load kvm_intel or kvm_amd");
        machine.firecracker.pose(|pose| pose.answer = no_kvm);
        machine.qemu.pose(|pose| pose.answer = Availability::usable("tcg").offered(Offer::WhenNeeded));
        machine
    }

    async fn yard(&self, change: impl FnOnce(&mut ServerConfig)) -> TestYard {
        let drivers: Vec<Arc<dyn Driver>> =
            vec![self.firecracker.clone(), self.native.clone(), self.docker.clone(), self.qemu.clone()];
        TestYard::with_drivers(drivers, change).await.unwrap()
    }
}

fn with_floor(floor: Floor, job: NewJob) -> NewJob {
    NewJob { isolation: floor, ..job }
}

fn named(name: &str) -> Floor {
    Floor::Driver(name.to_owned())
}

async fn refusal(yard: &TestYard, floor: Floor) -> AppError {
    match yard.schedule(with_floor(floor, shell("true"))).await {
        Err(TestError::App(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_requested_effective_runtime_and_why() {
    let machine = Machine::without_kvm();
    let yard = machine.yard(|_| {}).await;
    let status = yard.run(shell("true")).await.unwrap();
    let wall = status.isolation;
    assert_eq!((wall.requested.as_str(), wall.effective.as_deref()), ("any", Some("native")));
    assert_eq!(wall.level, Some(IsolationLevel::Container));
    assert_eq!(wall.runtime.as_deref(), Some("posing as container"));
    assert_eq!(
        wall.reason.as_deref(),
        Some("firecracker: no usable /dev/kvm; qemu: only for a floor of `vm`")
    );
    let status = yard.run(with_floor(VM, shell("true"))).await.unwrap();
    assert_eq!(status.isolation.effective.as_deref(), Some("qemu"));
    assert_eq!(status.isolation.level, Some(IsolationLevel::Vm));
    let status = yard.run(with_floor(named("docker"), shell("true"))).await.unwrap();
    assert_eq!(status.isolation.effective.as_deref(), Some("docker"));
    assert_eq!(status.isolation.reason.as_deref(), Some("asked for by name"));
}

#[tokio::test(flavor = "multi_thread")]
async fn below_the_floor_nothing_is_accepted_and_nothing_is_left() {
    let machine = Machine::without_kvm();
    machine
        .qemu
        .pose(|pose| pose.answer = Availability::missing("not installed", "apt install qemu-system-x86"));
    let yard = machine.yard(|_| {}).await;
    let error = refusal(&yard, VM).await;
    assert_eq!(error.code, ErrorCode::NoDriver);
    assert!(error.message.contains("qemu: not installed"), "{}", error.message);
    assert_eq!(error.hint.as_deref(), Some("load kvm_intel or kvm_amd"));
    let error = refusal(&yard, named("qemu")).await;
    assert_eq!(error.hint.as_deref(), Some("apt install qemu-system-x86"));
    assert_eq!(refusal(&yard, named("oci")).await.code, ErrorCode::NoDriver);
    assert_eq!(refusal(&yard, named("nonsense")).await.code, ErrorCode::UnknownIsolation);
    assert!(
        yard.yard.list(&Caller::operator(), &JobFilter::default(), 10, None).await.unwrap().jobs.is_empty()
    );
    assert_eq!(std::fs::read_dir(yard.data().join("jobs")).unwrap().count(), 0);
    assert!(machine.native.world.started().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_floor_holds_for_jobs_that_ask_for_less() {
    let machine = Machine::without_kvm();
    let yard = machine.yard(|config| config.floors = vec![VM]).await;
    assert_eq!(yard.run(shell("true")).await.unwrap().isolation.effective.as_deref(), Some("qemu"));
    assert!(refusal(&yard, named("native")).await.message.contains("asked for by this server"));

    let yard = machine.yard(|config| config.floors = vec![Floor::Any, named("docker")]).await;
    assert_eq!(yard.run(shell("true")).await.unwrap().isolation.effective.as_deref(), Some("docker"));
    assert_eq!(refusal(&yard, VM).await.code, ErrorCode::NoDriver);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_a_choice_depends_on_is_tried_and_once() {
    let machine = Machine::without_kvm();
    let yard = machine.yard(|_| {}).await;
    for _ in 0..3 {
        yard.run(shell("true")).await.unwrap();
    }
    let asked =
        [&machine.firecracker, &machine.native, &machine.docker, &machine.qemu].map(|one| one.asked());
    assert_eq!(asked, [1, 1, 0, 0]);
}

/// D10: each driver says whether it works, and one that takes long to find out holds nobody up.
#[tokio::test(flavor = "multi_thread")]
async fn d10_every_driver_reports_and_a_slow_one_is_not_waited_for() {
    let machine = Machine::without_kvm();
    machine.qemu.pose(|pose| pose.takes = Duration::from_secs(5));
    let yard = machine.yard(|_| {}).await;
    let began = Instant::now();
    let told = yard.yard.drivers(&Caller::operator()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    let verdicts: Vec<_> =
        told.iter().map(|told| (told.name, told.availability.as_ref().map(|said| said.verdict))).collect();
    assert_eq!(
        verdicts,
        [
            ("firecracker", Some(DriverVerdict::Missing)),
            ("native", Some(DriverVerdict::Usable)),
            ("docker", Some(DriverVerdict::Usable)),
            ("qemu", None)
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_its_driver_to_be_tried_and_holds_no_other_up() {
    let machine = Machine::without_kvm();
    machine.qemu.pose(|pose| pose.takes = Duration::from_secs(5));
    let yard = machine.yard(|_| {}).await;
    let slow = yard.schedule(with_floor(VM, shell("true"))).await.unwrap();
    let waiting = yard.wait(&slow, "the job to be queued", |_| true).await.unwrap();
    assert_eq!(waiting.state, JobState::Queued);
    assert_eq!(waiting.reason.as_deref(), Some("waits until a driver has been tried"));
    let quick = yard.run(shell("true")).await.unwrap();
    assert_eq!(quick.state, JobState::Succeeded);
    assert_eq!(machine.qemu.asked(), 0, "the quick one ended before the other's driver had answered");
    let status = yard.ended(&slow).await.unwrap();
    assert_eq!((status.state, status.isolation.effective.as_deref()), (JobState::Succeeded, Some("qemu")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_full_of_jobs_that_wait_for_a_driver_holds_no_other_up() {
    let machine = Machine::without_kvm();
    machine.qemu.pose(|pose| pose.takes = Duration::from_secs(30));
    let yard = machine.yard(|config| config.admission.concurrency = 1).await;
    let running = yard.schedule(session()).await.unwrap();
    yard.wait(&running, "a live sandbox", |status| status.sandbox == SandboxState::Live).await.unwrap();
    let slow = (0..80).map(|_| yard.schedule(with_floor(VM, shell("true"))));
    futures_util::future::try_join_all(slow).await.unwrap();
    let quick = yard.schedule(shell("true")).await.unwrap();
    yard.yard.cancel(&yard.job(&running).await.unwrap()).await.unwrap();
    assert_eq!(yard.ended(&quick).await.unwrap().state, JobState::Succeeded);
    assert_eq!(machine.qemu.asked(), 0, "it ended before the others' driver had answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waited_for_a_driver_that_turns_out_missing_fails_closed() {
    let machine = Machine::without_kvm();
    machine.qemu.pose(|pose| {
        pose.takes = Duration::from_secs(4);
        pose.answer = Availability::missing("boots nothing", "another machine");
    });
    let yard = machine.yard(|config| config.driver_patience = Duration::ZERO).await;
    let id = yard.schedule(with_floor(VM, shell("true"))).await.unwrap();
    let status = yard.ended(&id).await.unwrap();
    let error = status.error.unwrap();
    assert_eq!((status.state, error.code.as_str()), (JobState::Failed, "no_driver"));
    assert!(error.message.contains("qemu: boots nothing"), "{}", error.message);
    assert_eq!(status.isolation.effective, None);
    assert!(machine.native.world.started().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_breaks_before_the_start_fails_the_job_and_is_not_replaced() {
    let machine = Machine::without_kvm();
    let yard = machine.yard(|_| {}).await;
    yard.run(with_floor(named("docker"), shell("true"))).await.unwrap();
    machine.docker.pose(|pose| {
        pose.breaks = true;
        pose.answer = Availability::missing("the engine is gone", "start it");
    });
    let status = yard.run(with_floor(named("docker"), shell("true"))).await.unwrap();
    assert_eq!((status.state, status.error.unwrap().code.as_str()), (JobState::Failed, "no_driver"));
    assert!(machine.native.world.started().is_empty() && machine.qemu.world.started().is_empty());
    // The driver was tried again, so the next job is refused when it is scheduled.
    let error = refusal(&yard, named("docker")).await;
    assert!(error.message.contains("docker: the engine is gone"), "{}", error.message);
    // Somebody mends it: a failure is believed for a few seconds only.
    machine.docker.pose(|pose| {
        pose.breaks = false;
        pose.answer = Availability::usable("the engine is back");
    });
    assert_eq!(refusal(&yard, named("docker")).await.code, ErrorCode::NoDriver);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let status = yard.run(with_floor(named("docker"), shell("true"))).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_driver_broke_jobs_that_did_not_name_it_get_the_next_and_are_told_why() {
    let machine = Machine::without_kvm();
    let yard = machine.yard(|_| {}).await;
    yard.run(shell("true")).await.unwrap();
    machine.native.pose(|pose| {
        pose.breaks = true;
        pose.answer = Availability::missing("no loop devices", "modprobe loop");
    });
    assert_eq!(yard.run(shell("true")).await.unwrap().state, JobState::Failed);
    let status = yard.run(shell("true")).await.unwrap();
    assert_eq!(status.isolation.effective.as_deref(), Some("docker"));
    assert!(status.isolation.reason.unwrap().contains("native: no loop devices"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_never_gets_a_weaker_wall_than_it_had() {
    let machine = Machine::without_kvm();
    let yard = machine.yard(|_| {}).await;
    let id = yard.schedule(with_floor(VM, session())).await.unwrap();
    yard.wait(&id, "a live sandbox", |status| status.sandbox == SandboxState::Live).await.unwrap();
    let crashed = yard.crash();
    let sandbox = machine.qemu.world.alive().remove(0);
    machine.qemu.world.kill(&sandbox).await;
    machine.qemu.pose(|pose| pose.level = IsolationLevel::Container);
    let yard = crashed.restart().await.unwrap();
    let status = yard.ended(&id).await.unwrap();
    assert_eq!(status.state, JobState::Failed);
    assert_eq!(status.isolation.level, Some(IsolationLevel::Vm), "what it had is what the status says");
    assert_eq!(machine.qemu.world.started().len(), 1, "no weaker machine was made, not even for the export");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_job_is_adopted_by_its_own_driver_also_where_auto_would_choose_another() {
    let machine = Machine::without_kvm();
    let yard = machine.yard(|_| {}).await;
    let id = yard.schedule(with_floor(named("docker"), session())).await.unwrap();
    yard.wait(&id, "a live sandbox", |status| status.sandbox == SandboxState::Live).await.unwrap();
    let yard = yard.crash().restart().await.unwrap();
    let status =
        yard.wait(&id, "a live sandbox", |status| status.sandbox == SandboxState::Live).await.unwrap();
    assert_eq!(status.isolation.effective.as_deref(), Some("docker"));
    assert_eq!(machine.docker.world.started().len(), 1);
    yard.yard.cancel(&yard.job(&id).await.unwrap()).await.unwrap();
    yard.ended(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_takes_the_drivers_form_once_and_the_status_says_how_far_it_is() {
    let machine = Machine::without_kvm();
    machine.docker.pose(|pose| pose.image_takes = Some(Duration::from_millis(700)));
    let yard = machine.yard(|_| {}).await;
    let first = yard.schedule(with_floor(named("docker"), shell("true"))).await.unwrap();
    let second = yard.schedule(with_floor(named("docker"), shell("true"))).await.unwrap();
    let told = yard.wait(&first, "a reason", |status| status.reason.is_some()).await.unwrap();
    assert_eq!((told.state, told.reason.as_deref()), (JobState::Starting, Some("disk 50 %")));
    let making = yard
        .yard
        .drivers(&Caller::operator())
        .await
        .unwrap()
        .into_iter()
        .find(|told| told.name == "docker")
        .unwrap()
        .making;
    assert_eq!(making.as_deref(), Some("disk 50 %"));
    assert_eq!(yard.ended(&first).await.unwrap().state, JobState::Succeeded);
    assert_eq!(yard.ended(&second).await.unwrap().state, JobState::Succeeded);
    assert_eq!(machine.docker.images_made(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cant_take_the_drivers_form_fails_the_job() {
    let machine = Machine::without_kvm();
    machine.docker.pose(|pose| pose.image_fails = true);
    let yard = machine.yard(|_| {}).await;
    let status = yard.run(with_floor(named("docker"), shell("true"))).await.unwrap();
    let error = status.error.unwrap();
    assert_eq!((status.state, error.code), (JobState::Failed, FailureCode::SandboxStartFailed));
    assert!(error.message.contains("make a disk: scripted"), "{}", error.message);
    assert!(machine.docker.world.started().is_empty());
}

/// A panic in one driver is reported like any other missing part, cleared by the next attempt, and nobody
/// waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_panics_is_missing_and_tried_again() {
    let machine = Machine::without_kvm();
    machine.native.pose(|pose| pose.panics = true);
    let yard = machine.yard(|_| {}).await;
    let status = yard.run(shell("true")).await.unwrap();
    assert_eq!(status.isolation.effective.as_deref(), Some("docker"));
    let reason = status.isolation.reason.unwrap();
    assert!(reason.contains("native: the driver has a fault: scripted fault"), "{reason}");
    assert!(refusal(&yard, named("native")).await.message.contains("scripted fault"));
    machine.native.pose(|pose| pose.panics = false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let status = yard.run(with_floor(named("native"), shell("true"))).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_an_image_takes_its_form_fails_the_job_and_not_the_next_one() {
    let machine = Machine::without_kvm();
    let yard = machine.yard(|_| {}).await;
    let on_docker = || with_floor(named("docker"), shell("true"));
    yard.yard.drivers(&Caller::operator()).await.unwrap();
    machine.docker.pose(|pose| pose.panics = true);
    let status = yard.run(on_docker()).await.unwrap();
    assert_eq!(status.state, JobState::Failed);
    let message = status.error.unwrap().message;
    assert!(message.contains("the driver has a fault: scripted fault"), "{message}");
    machine.docker.pose(|pose| pose.panics = false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(yard.run(on_docker()).await.unwrap().state, JobState::Succeeded);
}
