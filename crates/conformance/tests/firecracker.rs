//! The Firecracker driver: against a strict double of its API everywhere, and the whole conformance suite wherever the real one and a
//! usable KVM are.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod firecracker_yard;
mod hostile_guest;
#[path = "firecracker_yard/image.rs"]
mod image;
#[path = "fake_firecracker/schema.rs"]
mod schema;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use firecracker_yard::{DoubleYard, SMALL, owner_and_mode};
use sandyard_pipe::{HostOffer, welcome};
use sandyard_sandbox::driver::{
    Driver, DriverOpenError, FoundSandbox, LinkError, Liveness, SandboxSpec, StartError,
};
use sandyard_sandbox::machine::Machine;
use serde_json::json;
use tokio::time::timeout;

const NOTHING: Vec<String> = Vec::new();
/// Longer than anything here may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Names the yard to the process that stands for a server.
const SERVER_OF: &str = "SANDYARD_TEST_SERVER_OF";

/// The double locks machines up as the jailer does, which takes root.
fn yard() -> Option<DoubleYard> {
    if rustix::process::geteuid().is_root() {
        return Some(DoubleYard::new());
    }
    #[expect(clippy::print_stdout, reason = "says what it skips")]
    {
        println!("skipped: the double's jailer needs root");
    }
    None
}

/// Checks that the double refuses bad requests; otherwise it proves nothing.
#[test]
fn the_double_refuses_what_the_published_api_does_not_have() {
    use schema::Phase::{AfterBoot, BeforeBoot};
    let machine = |vcpus, memory| json!({ "vcpu_count": vcpus, "mem_size_mib": memory });
    let drive = json!({ "drive_id": "a", "is_root_device": true, "is_read_only": true, "path_on_host": "p" });
    let with = |name: &str, value: serde_json::Value| {
        let mut drive = drive.clone();
        drive[name] = value;
        drive
    };
    let check = |method, path, body: &serde_json::Value, phase| {
        schema::check(16, method, path, body.to_string().as_bytes(), phase)
    };
    assert!(check("PUT", "/drives/a", &drive, BeforeBoot).is_ok());
    assert!(check("PUT", "/actions", &json!({ "action_type": "SendCtrlAltDel" }), AfterBoot).is_ok());
    let refused = [
        ("PATCH", "/drives/a", drive.clone(), BeforeBoot),
        ("PUT", "/drives/a", drive.clone(), AfterBoot),
        ("PUT", "/drives/b", drive.clone(), BeforeBoot),
        ("PUT", "/drives/a", with("drive", json!("a")), BeforeBoot),
        ("PUT", "/drives/a", with("is_read_only", json!("yes")), BeforeBoot),
        ("PUT", "/drives/a", with("cache_type", json!("writeback")), BeforeBoot),
        ("PUT", "/drives/a", with("rate_limiter", json!({ "ops": { "size": 1 } })), BeforeBoot),
        ("PUT", "/drives/a-b", with("drive_id", json!("a-b")), BeforeBoot),
        ("PUT", "/machine-config", machine(json!(0), json!(128)), BeforeBoot),
        ("PUT", "/machine-config", machine(json!(33), json!(128)), BeforeBoot),
        ("PUT", "/machine-config", machine(json!(1.5), json!(128)), BeforeBoot),
        ("PUT", "/machine-config", machine(json!(1), json!(0)), BeforeBoot),
        ("PUT", "/machine-config", json!({ "vcpu_count": 1 }), BeforeBoot),
        ("PUT", "/vsock", json!({ "guest_cid": 2, "uds_path": "v" }), BeforeBoot),
        ("PUT", "/boot-source", json!({ "initrd_path": "i" }), BeforeBoot),
        ("PUT", "/actions", json!({ "action_type": "Reboot" }), BeforeBoot),
        ("PUT", "/actions", json!({ "action_type": "InstanceStart" }), AfterBoot),
        ("PUT", "/actions", json!({ "action_type": "SendCtrlAltDel" }), BeforeBoot),
        (
            "PUT",
            "/network-interfaces/eth0",
            json!({ "iface_id": "eth0", "host_dev_name": "tap0" }),
            BeforeBoot,
        ),
        ("PUT", "/vsock", json!([]), BeforeBoot),
    ];
    for (method, path, body, phase) in refused {
        assert!(check(method, path, &body, phase).is_err(), "{method} {path} {body} {phase:?}");
    }
}

/// Each version knows more than the one before.
#[test]
fn the_double_refuses_what_its_version_does_not_have_yet() {
    let known = |version, body: serde_json::Value| {
        let body = body.to_string();
        schema::check(version, "PUT", "/serial", body.as_bytes(), schema::Phase::BeforeBoot).is_ok()
    };
    let limited = || json!({ "rate_limiter": { "size": 1, "refill_time": 1 } });
    assert_eq!([13, 14, 16].map(|version| known(version, json!({}))), [false, true, true]);
    assert_eq!([13, 15, 16].map(|version| known(version, limited())), [false, false, true]);
}

/// R11: the driver sends to each usable version only the requests that it knows.
#[tokio::test(flavor = "multi_thread")]
async fn older_versions_are_told_what_they_know() {
    let Some(yard) = yard() else { return };
    for (version, limited) in [("1.13.2", false), ("1.14.4", false), ("1.15.1", false), ("1.16.0", true)] {
        yard.faults(&json!({ "version": version }));
        let (driver, spec) = (yard.open(), yard.spec(&format!("old-{}", version.replace('.', "-"))));
        driver.start(&spec).await.unwrap();
        assert_eq!(yard.asked("/serial"), limited, "{version}");
        driver.stop(&spec.id).await.unwrap();
        yard.transcript();
    }
}

async fn dial(driver: &dyn Driver, spec: &SandboxSpec, epoch: u64) -> Machine {
    let offer = HostOffer {
        sandbox: spec.id.to_string(),
        secret: *spec.secret.expose(),
        epoch,
        unix_ms: 1_700_000_000_000,
    };
    let link = timeout(SOON, driver.next_link(&spec.id)).await.unwrap().unwrap();
    Machine::over(timeout(SOON, welcome(link, offer)).await.unwrap().unwrap())
}

/// Every request passes the published API, in an order that boots; the guest's connection becomes a link.
#[tokio::test(flavor = "multi_thread")]
async fn says_what_the_published_api_allows() {
    let Some(yard) = yard() else { return };
    let (driver, spec) = (yard.open(), yard.spec("talk-1"));
    driver.start(&spec).await.unwrap();
    dial(&*driver, &spec, 1).await.ping().await.unwrap();
    driver.start(&spec).await.unwrap();
    let transcript = yard.transcript();
    let faults: Vec<_> = transcript.iter().filter(|(_, detail)| !detail["fault"].is_null()).collect();
    assert!(faults.is_empty(), "{faults:?}");
    let said: Vec<_> = transcript.iter().map(|(what, _)| what.as_str()).collect();
    let expected = [
        "jailer",
        "firecracker",
        "/machine-config",
        "/boot-source",
        "/drives/root",
        "/drives/workspace",
        "/drives/boot",
        "/vsock",
        "/entropy",
        "/serial",
        "/actions",
    ];
    assert_eq!(said, expected);
    let machine = &transcript[2].1["body"];
    assert_eq!((&machine["vcpu_count"], &machine["smt"]), (&json!(2), &json!(false)));
    assert!(machine["mem_size_mib"].as_u64().unwrap() >= SMALL.memory_mib);
    let names = yard.names();
    driver.stop(&spec.id).await.unwrap();
    assert_eq!(yard.leftovers(&names), NOTHING);
}

/// D7, from the host: each machine has its own user, root, network and process namespace, and no file of it
/// is open to others.
#[tokio::test(flavor = "multi_thread")]
async fn locks_every_machine_up() {
    let Some(yard) = yard() else { return };
    let driver = yard.open();
    let (one, two) = (yard.spec("jail-1"), yard.spec("jail-2"));
    driver.start(&one).await.unwrap();
    let root = yard.jail_root("jail-1");
    let [pid] = yard.processes()[..] else { panic!("{:?}", yard.processes()) };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let uid: u32 = field("Uid:")[0].parse().unwrap();
    assert!(
        uid >= 65_536 && field("Uid:").iter().chain(&field("Gid:")).all(|id| *id == uid.to_string()),
        "{status}"
    );
    assert_eq!(field("NSpid:").last().map(String::as_str), Some("1"));
    for namespace in ["net", "mnt", "ipc", "uts", "pid"] {
        let of = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/{namespace}")).unwrap();
        assert_ne!(of(&pid.to_string()), of("self"), "{namespace}");
    }
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/root")).unwrap(), root);
    let interfaces = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
    assert_eq!(interfaces.lines().skip(2).count(), 1, "{interfaces}");
    assert_eq!(owner_and_mode(root.ancestors().nth(3).unwrap()), (0, 0o700));
    assert_eq!(owner_and_mode(&root.join("boot.disk")), (uid, 0o400));
    assert_eq!(owner_and_mode(&one.workspace.join("machine.ext4")).0, uid);
    driver.start(&two).await.unwrap();
    let names = yard.names();
    for id in [&one.id, &two.id] {
        driver.stop(id).await.unwrap();
    }
    assert_eq!(owner_and_mode(&one.workspace.join("machine.ext4")).0, 0);
    assert_eq!(yard.leftovers(&names), NOTHING);
}

/// A machine goes on without its server, and the next one finds and ends it.
#[tokio::test(flavor = "multi_thread")]
async fn is_adopted_by_the_next_server() {
    let Some(yard) = yard() else { return };
    let (driver, spec) = (yard.open(), yard.spec("heir-1"));
    driver.start(&spec).await.unwrap();
    let machine = dial(&*driver, &spec, 1).await;
    drop((machine, driver));
    let driver = yard.open();
    assert_eq!(
        driver.list().await.unwrap(),
        [FoundSandbox { id: spec.id.clone(), liveness: Liveness::Alive }]
    );
    dial(&*driver, &spec, 2).await.ping().await.unwrap();
    assert!(driver.usage(&spec.id).await.unwrap().peak_memory_bytes > 0);
    let names = yard.names();
    driver.stop(&spec.id).await.unwrap();
    driver.stop(&spec.id).await.unwrap();
    assert_eq!(driver.list().await.unwrap(), []);
    assert_eq!(yard.leftovers(&names), NOTHING);
    assert_eq!(yard.transcript().last().unwrap().0, "guest leaves");
}

/// A machine that dies is noticed, reported as dead, and removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_machine_is_noticed() {
    let Some(yard) = yard() else { return };
    let (driver, spec) = (yard.open(), yard.spec("dead-1"));
    driver.start(&spec).await.unwrap();
    for pid in yard.processes() {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    timeout(SOON, driver.wait_dead(&spec.id)).await.unwrap();
    assert_eq!(
        driver.list().await.unwrap(),
        [FoundSandbox { id: spec.id.clone(), liveness: Liveness::Dead }]
    );
    let link = timeout(SOON, driver.next_link(&spec.id)).await.unwrap();
    assert!(matches!(link, Err(LinkError::NotRunning(_))));
    let names = yard.names();
    driver.stop(&spec.id).await.unwrap();
    assert_eq!(yard.leftovers(&names), NOTHING);
}

/// A guest that does not react to the keys is killed all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_does_not_leave_is_killed() {
    let Some(yard) = yard() else { return };
    yard.faults(&json!({ "ignores_keys": true }));
    let (driver, spec) = (yard.open(), yard.spec("stay-1"));
    driver.start(&spec).await.unwrap();
    let names = yard.names();
    timeout(SOON, driver.stop(&spec.id)).await.unwrap().unwrap();
    assert_eq!(yard.leftovers(&names), NOTHING);
}

/// K21 and L22: any fault fails the start, which names the step and leaves nothing but the marker.
#[tokio::test(flavor = "multi_thread")]
async fn any_fault_fails_the_start_and_leaves_nothing() {
    let Some(yard) = yard() else { return };
    let driver = yard.open();
    let mut cases = vec![
        (json!({ "jailer_fails": true }), "start Firecracker"),
        (json!({ "dies_at_launch": true }), "Firecracker"),
    ];
    let paths =
        ["/machine-config", "/boot-source", "/drives/workspace", "/vsock", "/entropy", "/serial", "/actions"];
    cases.extend(paths.map(|path| (json!({ "refuses": path }), path)));
    cases.extend(["/drives/boot", "/actions"].map(|path| (json!({ "dies": path }), path)));
    for (number, (faults, told)) in cases.into_iter().enumerate() {
        yard.faults(&faults);
        let spec = yard.spec(&format!("fault-{number}"));
        match timeout(SOON, driver.start(&spec)).await.unwrap() {
            Err(StartError::Step { step, .. }) => assert!(step.contains(told), "{faults}: {step}"),
            other => panic!("{faults}: {other:?}"),
        }
        assert_eq!(yard.leftovers(&yard.names()), NOTHING, "{faults}");
        assert_eq!(
            driver.list().await.unwrap(),
            [FoundSandbox { id: spec.id.clone(), liveness: Liveness::Dead }]
        );
        driver.stop(&spec.id).await.unwrap();
        assert_eq!(driver.list().await.unwrap(), []);
    }
    yard.faults(&json!({}));
    let spec = yard.spec("after-all");
    driver.start(&spec).await.unwrap();
    driver.stop(&spec.id).await.unwrap();
}

/// Not a test: the process that `a_killed_server_leaves_nothing` starts and kills.
#[tokio::test(flavor = "multi_thread")]
async fn stands_for_a_server() {
    let Some(directory) = std::env::var_os(SERVER_OF) else { return };
    let yard = DoubleYard::at(directory.into());
    let (driver, spec) = (yard.open(), yard.spec("killed-1"));
    let _ = driver.start(&spec).await;
    std::future::pending::<()>().await;
}

/// L1 and L22: a server that is killed at any step of a start, by signal 9, leaves nothing that its successor does not remove.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_nothing() {
    let Some(yard) = yard() else { return };
    let stalls = ["/boot-source", "/drives/root", "/vsock", "/actions"];
    let mut cases =
        vec![(json!({ "jailer_stalls": true }), "jailer"), (json!({ "no_socket": true }), "firecracker")];
    cases.extend(stalls.map(|path| (json!({ "stalls": path }), path)));
    for (faults, reached) in cases {
        yard.faults(&faults);
        let mut server = server_of(&yard);
        wait_until(|| yard.asked(reached)).await;
        server.kill().unwrap();
        server.wait().unwrap();
        expect_clean(&yard, &faults.to_string()).await;
    }
    // Also kills the server at arbitrary moments.
    yard.faults(&json!({}));
    for delay_ms in (0..60).step_by(6) {
        let mut server = server_of(&yard);
        wait_until(|| yard.data().join("sandboxes/killed-1").exists()).await;
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        server.kill().unwrap();
        server.wait().unwrap();
        expect_clean(&yard, &format!("after {delay_ms} ms")).await;
    }
}

fn server_of(yard: &DoubleYard) -> std::process::Child {
    yard.transcript();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stands_for_a_server"])
        .env(SERVER_OF, yard.directory())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

async fn expect_clean(yard: &DoubleYard, case: &str) {
    let names = yard.names();
    let driver = yard.open();
    for found in driver.list().await.unwrap() {
        driver.stop(&found.id).await.unwrap();
    }
    assert_eq!(driver.list().await.unwrap(), [], "{case}");
    assert_eq!(yard.leftovers(&names), NOTHING, "{case}");
}

async fn wait_until(holds: impl Fn() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, waited).await.unwrap();
}

/// Jails and groups without a marker are orphans.
#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_removed() {
    let Some(yard) = yard() else { return };
    let (driver, spec) = (yard.open(), yard.spec("orphan-1"));
    driver.start(&spec).await.unwrap();
    let names = yard.names();
    std::fs::remove_dir_all(yard.data().join("sandboxes/orphan-1")).unwrap();
    assert_ne!(yard.leftovers(&names), NOTHING);
    assert_eq!(yard.open().list().await.unwrap(), []);
    assert_eq!(yard.leftovers(&names), NOTHING);
}

/// D10: a missing part is named, and nothing counts as usable that was not seen to boot.
#[tokio::test(flavor = "multi_thread")]
async fn says_whether_machines_start_here() {
    let Some(yard) = yard() else { return };
    let driver = yard.open();
    assert!(driver.availability().await.may_start());
    assert_eq!(driver.isolation().runtime, "firecracker 1.16.1+jailer");
    yard.faults(&json!({ "mute_guest": true, "dies": "/entropy" }));
    let availability = driver.availability().await;
    assert!(!availability.may_start() && availability.fix.is_some(), "{availability:?}");
    assert_eq!(driver.list().await.unwrap(), []);
    yard.faults(&json!({ "version": "1.14.0" }));
    match yard.try_open() {
        Err(DriverOpenError::Unusable { detail, .. }) => {
            assert!(detail.contains("CVE-2026-1386"), "{detail}")
        }
        other => panic!("{other:?}"),
    }
}

/// The conformance suite on the real Firecracker, and the cost of one of its machines.
mod real {
    use std::time::Instant;

    use sandyard_conformance::{
        SandboxSession, failures, lifecycle, neighbours, own_kernel, probe, resources, shown_size, workspace,
    };
    use sandyard_sandbox::driver::{Driver, Limits};

    use super::firecracker_yard::SMALL;
    use super::firecracker_yard::real::RealYard;
    use super::{NOTHING, hostile_guest};

    #[tokio::test(flavor = "multi_thread")]
    async fn keeps_the_drivers_contract() {
        let Some(yard) = RealYard::open().await else { return };
        let outcomes = lifecycle(&yard.subject()).await.unwrap();
        assert_eq!(failures(&outcomes), NOTHING);
        assert_eq!(yard.jails(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn looks_right_from_inside() {
        let Some(yard) = RealYard::open().await else { return };
        let outcomes = probe(&yard.subject()).await.unwrap();
        assert_eq!(failures(&outcomes), NOTHING);
        assert!(outcomes.len() > 100, "only {} checks ran", outcomes.len());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn limits_hold() {
        let Some(yard) = RealYard::open().await else { return };
        let outcomes = resources(&yard.subject()).await.unwrap();
        assert_eq!(failures(&outcomes), NOTHING);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn programs_see_the_limits() {
        let Some(yard) = RealYard::open().await else { return };
        let outcomes = shown_size(&yard.subject()).await.unwrap();
        assert_eq!(failures(&outcomes), NOTHING);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn neighbours_are_strangers() {
        let Some(yard) = RealYard::open().await else { return };
        let outcomes = neighbours(&yard.subject()).await.unwrap();
        assert_eq!(failures(&outcomes), NOTHING);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_workspace_misleads_nobody() {
        let Some(yard) = RealYard::open().await else { return };
        let outcomes = workspace(&yard.subject()).await.unwrap();
        assert_eq!(failures(&outcomes), NOTHING);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn has_no_way_out_but_its_own() {
        let Some(yard) = RealYard::open().await else { return };
        let outcomes = own_kernel(&yard.subject()).await.unwrap();
        assert_eq!(failures(&outcomes), NOTHING);
        assert_eq!(yard.jails(), 0);
    }

    /// R11: a machine that is not ours any more and speaks all the time.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_flooded_console_stays_small() {
        let Some(yard) = RealYard::open().await else { return };
        let (driver, cache) = yard.with_own_kernel();
        let spec = yard.subject().spec("flood-1", Limits { memory_mib: 64, ..Limits::default() }).unwrap();
        hostile_guest::plant(&driver, &spec.image, &cache).await;
        let said = || driver.console(&spec.id).unwrap_or_default();
        hostile_guest::expect_bounded(&driver, &spec, said, || yard.pid("flood-1").unwrap()).await;
        assert_eq!(yard.jails(), 0);
    }

    /// R22: the kernel's part of a machine is limited with it and gone with it.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_kernels_timer_is_in_the_machines_group() {
        let Some(yard) = RealYard::open().await else { return };
        let driver = yard.driver();
        let (one, two) =
            (yard.subject().spec("timer-1", SMALL).unwrap(), yard.subject().spec("timer-2", SMALL).unwrap());
        let (first, second) = tokio::join!(driver.start(&one), driver.start(&two));
        first.unwrap();
        second.unwrap();
        for id in ["timer-1", "timer-2"] {
            let timers = yard.timers_of(id);
            assert_eq!(timers.len(), 1, "{id}: {timers:?}");
        }
        for id in [&one.id, &two.id] {
            driver.stop(id).await.unwrap();
        }
        assert_eq!(yard.jails(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tells_what_a_machine_costs() {
        let Some(yard) = RealYard::open().await else { return };
        let driver = yard.driver();
        let spec = yard.subject().spec("cost-1", Limits::default()).unwrap();
        let began = Instant::now();
        let mut last = began;
        let mut lap = |what: &str| {
            println!("{what}: {} ms", last.elapsed().as_millis());
            last = Instant::now();
        };
        driver.start(&spec).await.unwrap();
        lap("Firecracker told to boot");
        let session = SandboxSession::start(driver.clone(), spec.clone()).await.unwrap();
        lap("linked and greeted");
        for _ in 0..3 {
            assert_eq!(session.run(&["/bin/true"]).await.unwrap().exit.code, 0);
            lap("ran /bin/true");
        }
        driver.usage(&spec.id).await.unwrap();
        lap("told usage");
        session.stop().await.unwrap();
        lap("left and removed");
        println!("all of it: {} ms", began.elapsed().as_millis());
        assert_eq!(yard.jails(), 0);
    }
}
