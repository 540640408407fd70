//! Floors by what is there, as tables.

use sandyard_sandbox::driver::{Availability, IsolationLevel, Offer};

use super::*;

/// How a driver stands in a row of a table.
#[derive(Clone, Copy)]
enum Stands {
    /// The driver answered that it works.
    Up,
    /// It works, for those who need it.
    Slow,
    /// It works, for those who name it.
    Outdated,
    /// There is no image to try it with.
    Untried,
    /// It does not work.
    Down,
    /// The driver has no answer yet.
    Unasked,
}
use Stands::{Down, Outdated, Slow, Unasked, Untried, Up};

/// The five of a machine that has everything, in order.
const NAMES: [(&str, IsolationLevel); 5] = [
    ("firecracker", IsolationLevel::Vm),
    ("native", IsolationLevel::Container),
    ("oci", IsolationLevel::Gvisor),
    ("docker", IsolationLevel::Container),
    ("qemu", IsolationLevel::Vm),
];

fn answer(stands: Stands) -> Option<Availability> {
    match stands {
        Up => Some(Availability::usable("fine")),
        Slow => Some(Availability::usable("tcg").offered(Offer::WhenNeeded)),
        Outdated => Some(Availability::usable("1.1.5").offered(Offer::WhenNamed)),
        Untried => Some(Availability::untried("no image")),
        Down => Some(Availability::missing("is broken", "mend it")),
        Unasked => None,
    }
}

fn decide(job: &Floor, server: &[Floor], stands: [Stands; 5]) -> Decision {
    let answers = stands.map(answer);
    let candidate = |(index, answer): (usize, &'_ Option<Availability>)| (NAMES[index], answer.clone());
    let known: Vec<_> = answers.iter().enumerate().map(candidate).collect();
    let candidates: Vec<_> = known
        .iter()
        .map(|((name, level), answer)| DriverCandidate { name, level: *level, answer: answer.as_ref() })
        .collect();
    Rules { job, server }.decide(&candidates)
}

/// The name of the driver that is taken, `?name` if it must be asked first, `-` if there is none.
fn outcome(job: &Floor, server: &[Floor], stands: [Stands; 5]) -> String {
    match decide(job, server, stands) {
        Decision::Take { index, .. } => NAMES[index].0.to_owned(),
        Decision::Ask { index } => format!("?{}", NAMES[index].0),
        Decision::Nothing(_) => "-".to_owned(),
    }
}

fn named(name: &str) -> Floor {
    Floor::Driver(name.to_owned())
}

#[test]
fn every_floor_by_what_is_there() {
    let floors = [
        Floor::Any,
        Floor::Level(IsolationLevel::Container),
        Floor::Level(IsolationLevel::Gvisor),
        Floor::Level(IsolationLevel::Vm),
        named("native"),
        named("oci"),
        named("qemu"),
    ];
    #[rustfmt::skip]
    let table = [
        // firecracker, native, oci (gVisor), docker, qemu → any, container, gvisor, vm, native, oci, qemu
        ([Up, Up, Up, Up, Up], ["firecracker", "firecracker", "firecracker", "firecracker", "native", "oci", "qemu"]),
        ([Down, Up, Up, Up, Up], ["native", "native", "oci", "qemu", "native", "oci", "qemu"]),
        ([Down, Down, Up, Up, Up], ["oci", "oci", "oci", "qemu", "-", "oci", "qemu"]),
        ([Down, Down, Down, Up, Up], ["docker", "docker", "qemu", "qemu", "-", "-", "qemu"]),
        ([Down, Down, Down, Down, Up], ["qemu", "qemu", "qemu", "qemu", "-", "-", "qemu"]),
        ([Down, Down, Down, Down, Down], ["-", "-", "-", "-", "-", "-", "-"]),
        // Slow ones only when named or needed.
        ([Down, Up, Up, Up, Slow], ["native", "native", "oci", "qemu", "native", "oci", "qemu"]),
        ([Down, Down, Down, Down, Slow], ["-", "-", "qemu", "qemu", "-", "-", "qemu"]),
        ([Slow, Up, Up, Up, Up], ["native", "native", "oci", "qemu", "native", "oci", "qemu"]),
        ([Slow, Down, Down, Down, Slow], ["-", "-", "firecracker", "firecracker", "-", "-", "qemu"]),
        // Outdated ones only when named.
        ([Down, Down, Outdated, Up, Down], ["docker", "docker", "-", "-", "-", "oci", "-"]),
        ([Down, Down, Outdated, Down, Slow], ["-", "-", "qemu", "qemu", "-", "oci", "qemu"]),
        // Without an image nothing can be tried, and jobs wait for it with the driver they would get.
        ([Down, Untried, Untried, Untried, Untried], ["native", "native", "oci", "qemu", "native", "oci", "qemu"]),
        // Only those that matter are asked.
        ([Unasked, Unasked, Unasked, Unasked, Unasked],
            ["?firecracker", "?firecracker", "?firecracker", "?firecracker", "?native", "?oci", "?qemu"]),
        ([Down, Unasked, Unasked, Unasked, Unasked], ["?native", "?native", "?oci", "?qemu", "?native", "?oci", "?qemu"]),
        ([Down, Up, Unasked, Unasked, Unasked], ["native", "native", "?oci", "?qemu", "native", "?oci", "?qemu"]),
        ([Slow, Down, Down, Down, Unasked], ["?qemu", "?qemu", "?qemu", "?qemu", "-", "-", "?qemu"]),
    ];
    for (row, (stands, expected)) in table.into_iter().enumerate() {
        for (floor, expected) in floors.iter().zip(expected) {
            assert_eq!(outcome(floor, &[], stands), expected, "row {row}, floor {}", floor.as_text());
        }
    }
}

#[test]
fn the_servers_floor_holds_for_every_job() {
    let vm = [Floor::Level(IsolationLevel::Vm)];
    assert_eq!(outcome(&Floor::Any, &vm, [Down, Up, Up, Up, Slow]), "qemu");
    assert_eq!(outcome(&named("native"), &vm, [Up; 5]), "-");
    assert_eq!(outcome(&named("qemu"), &vm, [Up; 5]), "qemu");
    let only_docker = [Floor::Any, named("docker")];
    assert_eq!(outcome(&Floor::Any, &only_docker, [Up; 5]), "docker");
    assert_eq!(outcome(&Floor::Level(IsolationLevel::Vm), &only_docker, [Up; 5]), "-");
    assert_eq!(outcome(&named("native"), &only_docker, [Up; 5]), "-");
    // Who restricts a server to a driver has named it.
    assert_eq!(outcome(&Floor::Any, &[named("qemu")], [Up, Up, Up, Up, Slow]), "qemu");
    assert_eq!(outcome(&Floor::Any, &[named("oci")], [Up, Up, Outdated, Up, Up]), "oci");
}

#[test]
fn the_reason_says_why_it_is_not_a_stronger_one() {
    let reason = |floor: &Floor, stands| match decide(floor, &[], stands) {
        Decision::Take { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        reason(&Floor::Any, [Down, Up, Unasked, Unasked, Unasked]).unwrap(),
        "firecracker: is broken; oci: only for a floor of `gvisor`; qemu: only for a floor of `vm`"
    );
    assert_eq!(reason(&Floor::Any, [Down, Up, Down, Down, Down]).unwrap(), "firecracker: is broken");
    assert_eq!(reason(&Floor::Any, [Up; 5]), None);
    assert_eq!(reason(&named("native"), [Up; 5]).unwrap(), "asked for by name");
    let vm = Floor::Level(IsolationLevel::Vm);
    assert!(
        reason(&vm, [Down, Up, Up, Up, Slow]).unwrap().starts_with("firecracker: is broken; native gives")
    );
}

#[test]
fn a_refusal_says_what_each_lacks_and_how_to_mend_it() {
    let refusal = |floor: &Floor, server: &[Floor], stands| match decide(floor, server, stands) {
        Decision::Nothing(no_driver) => no_driver,
        other => panic!("{other:?}"),
    };
    let refused = refusal(&Floor::Level(IsolationLevel::Vm), &[], [Down, Up, Up, Up, Down]);
    assert_eq!(refused.fix.as_deref(), Some("mend it"));
    assert_eq!(
        refused.to_string(),
        "no driver here can give isolation `vm`: firecracker: is broken; native gives `container`, and `vm` is asked for by \
         the job; oci gives `gvisor`, and `vm` is asked for by the job; docker gives `container`, and `vm` is asked for by the \
         job; qemu: is broken"
    );
    let refused = refusal(&Floor::Any, &[], [Down, Down, Outdated, Down, Slow]);
    assert!(refused.detail.ends_with(
        "oci: only used when named; docker: is broken; qemu: only used when named, or when more than a container is asked for"
    ));
    let refused = refusal(&named("native"), &[Floor::Level(IsolationLevel::Vm)], [Up; 5]);
    assert!(refused.detail.contains("native gives `container`, and `vm` is asked for by this server"));
    assert_eq!(
        Rules { job: &Floor::Any, server: &[] }.decide(&[]),
        Decision::Nothing(NoDriver { floor: "any".into(), detail: "none is configured".into(), fix: None })
    );
}
