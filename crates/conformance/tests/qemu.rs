//! The conformance suite against the qemu driver, on machines without hardware support.

mod hostile_guest;
mod qemu_yard;

use std::time::Duration;

use qemu_yard::QemuYard;
use rustix::process::{Pid, Signal};
use sandyard_conformance::{
    FailingStep, SandboxSession, failing_start, failures, lifecycle, neighbours, own_kernel, probe,
    resources, shown_size, workspace,
};
use sandyard_sandbox::driver::{
    Driver, DriverVerdict, FoundSandbox, Limits, LinkError, Liveness, Offer, SandboxId,
};
use sandyard_sandbox::drivers::qemu::{Acceleration, Accelerator, QemuConfig, QemuDriver, QemuStep};

const NONE: Vec<String> = Vec::new();

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_drivers_contract() {
    let Some(yard) = QemuYard::open() else { return };
    let outcomes = lifecycle(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_right_from_inside() {
    let Some(yard) = QemuYard::open() else { return };
    let directory = std::fs::File::open("/").unwrap();
    let _leaked: Vec<_> = (0..50).map(|_| rustix::io::dup(&directory).unwrap()).collect();
    let outcomes = probe(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    assert!(outcomes.len() > 100, "only {} checks ran", outcomes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold() {
    let Some(yard) = QemuYard::open() else { return };
    let outcomes = resources(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_see_the_limits() {
    let Some(yard) = QemuYard::open() else { return };
    let outcomes = shown_size(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// N12, N13, R12, R16 and S8: two sandboxes at once know nothing of each other, and the remains of the last
/// one are gone.
#[tokio::test(flavor = "multi_thread")]
async fn neighbours_are_strangers() {
    let Some(yard) = QemuYard::open() else { return };
    let outcomes = neighbours(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// F1 to F4, F10 and R14: nothing that a job puts in its workspace misleads the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_misleads_nobody() {
    let Some(yard) = QemuYard::open() else { return };
    let outcomes = workspace(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}

/// K21: a step that fails ends the start, names itself, and leaves nothing but the marker.
#[tokio::test(flavor = "multi_thread")]
async fn never_starts_with_less() {
    let Some(yard) = QemuYard::open() else { return };
    for (number, step) in QemuStep::ALL.into_iter().enumerate() {
        let config = yard.config(Acceleration::Only(Accelerator::Tcg));
        let driver = QemuDriver::open(QemuConfig { fail_at: Some(step), ..config }).unwrap();
        let failing = FailingStep { number, text: &step.to_string() };
        let leftovers = |id: &SandboxId| {
            let machines = yard.machines().into_iter().map(|pid| format!("process {pid}"));
            machines
                .chain(QemuYard::groups_named(id.as_str()).iter().map(|path| format!("{path:?}")))
                .collect()
        };
        let outcomes = failing_start(&yard.subject(), &driver, failing, leftovers).await.unwrap();
        assert_eq!(failures(&outcomes), NONE);
        yard.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn has_no_way_out_but_its_own() {
    let Some(yard) = QemuYard::open() else { return };
    let outcomes = own_kernel(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

/// R11: a machine that is not ours any more and speaks all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_flooded_console_stays_small() {
    let Some(yard) = QemuYard::open() else { return };
    let (driver, cache) = yard.with_own_kernel();
    let spec = yard.subject().spec("flood-1", Limits { memory_mib: 64, ..Limits::default() }).unwrap();
    hostile_guest::plant(&driver, &spec.image, &cache).await;
    let said = || driver.console(&spec.id).unwrap_or_default();
    hostile_guest::expect_bounded(&driver, &spec, said, || yard.pid("flood-1")).await;
    yard.assert_clean();
}

/// Checks a machine from the host: a process of a user of its own, in groups and namespaces of its own,
/// behind another kernel. The driver notices its death, whoever killed it.
#[tokio::test(flavor = "multi_thread")]
async fn is_confined_and_its_death_is_noticed() {
    let Some(yard) = QemuYard::open() else { return };
    let subject = yard.subject();
    let spec = subject.spec("seen-1", Limits { memory_mib: 256, ..Limits::default() }).unwrap();
    let session = SandboxSession::start((subject.open)(), spec.clone()).await.unwrap();
    let boot = "/proc/sys/kernel/random/boot_id";
    let inside = session.shell(&format!("cat {boot}")).await.unwrap().stdout;
    assert!(inside.len() > 30 && inside != std::fs::read_to_string(boot).unwrap(), "{inside}");

    let pid = yard.pid("seen-1");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
    };
    assert!(field("Uid").parse::<u32>().unwrap() >= 65_536, "{status}");
    assert_eq!((field("CapEff"), field("CapBnd").is_empty()), ("0000000000000000".to_owned(), false));
    assert_eq!((field("NoNewPrivs").as_str(), field("Seccomp").as_str()), ("1", "2"));
    for namespace in ["mnt", "net", "ipc", "uts"] {
        let of = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/{namespace}")).unwrap();
        assert_ne!(of(&pid.to_string()), of("self"), "{namespace}");
    }
    assert!(QemuYard::groups_of(pid).iter().any(|group| group.ends_with("seen-1/job")));
    // R22: every thread of QEMU, including those that emulate processors and disks.
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let groups = std::fs::read_to_string(task.path().join("cgroup")).unwrap();
        assert!(groups.contains("/seen-1/job"), "{groups}");
    }
    // D8: this host's kernel takes no part in the machine's writes.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(yard.data().parent().unwrap().to_str().unwrap()), "{mounts}");
    assert!(yard.loop_devices().is_empty(), "{:?}", yard.loop_devices());

    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    tokio::time::timeout(Duration::from_secs(20), session.driver.wait_dead(&spec.id)).await.unwrap();
    assert_eq!(
        session.driver.list().await.unwrap(),
        [FoundSandbox { id: spec.id.clone(), liveness: Liveness::Dead }]
    );
    assert!(matches!(session.driver.next_link(&spec.id).await, Err(LinkError::NotRunning(_))));
    session.stop().await.unwrap();
    yard.assert_clean();
}

/// A server that was killed before it wrote anything down leaves a machine that nobody owns.
#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_removed() {
    let Some(yard) = QemuYard::open() else { return };
    let subject = yard.subject();
    let spec = subject.spec("orphan-1", Limits { memory_mib: 256, ..Limits::default() }).unwrap();
    (subject.open)().start(&spec).await.unwrap();
    std::fs::remove_dir_all(yard.data().join("sandboxes/orphan-1")).unwrap();
    assert_eq!(yard.machines().len(), 1);
    assert_eq!((subject.open)().list().await.unwrap(), []);
    yard.assert_clean();
}

/// KVM is used if a guest boots on it, and the answer is found again by the next server, with its reason.
#[tokio::test(flavor = "multi_thread")]
async fn says_what_runs_its_machines() {
    let Some(yard) = QemuYard::open() else { return };
    let driver = QemuDriver::open(yard.config(Acceleration::Auto)).unwrap();
    let availability = driver.availability().await;
    assert_eq!(availability.verdict, DriverVerdict::Usable, "{availability:?}");
    let runtime = driver.isolation().runtime;
    let expected = match availability.offer {
        Offer::Always => "qemu-kvm",
        _ => "qemu-tcg",
    };
    assert_eq!(runtime, expected, "{availability:?}");
    assert_eq!(availability.detail.contains("emulated: "), runtime == "qemu-tcg", "{availability:?}");
    let kept = std::fs::read_to_string(yard.data().join("acceleration.json")).unwrap();
    assert!(kept.contains(runtime.trim_start_matches("qemu-")), "{kept}");
    assert_eq!(driver.list().await.unwrap(), []);
    yard.assert_clean();
}
