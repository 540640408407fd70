//! Checks that two sandboxes do not reach each other's sockets and objects, nor use up each other's limits.
//!
//! `serve` opens every kind of socket and object that a neighbour could find. `exhaust` takes objects that the kernel counts for
//! each user until it is refused. Both print `ready` and stay. `reach` reports the objects that can still be found or made.

use std::io::Write;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::ExitCode;
use std::time::Duration;

use crate::{ProbeFinding, outcome, report, sys};

/// The port that is served and looked for.
const PORT: u16 = 47_113;
/// Name of the abstract socket and of the socket files.
const NAME: &str = "sandyard-neighbour";
/// Directories in which a socket is served and looked for.
const PLACES: [&str; 4] = ["/tmp", "/dev/shm", "/var/tmp", "/run/user/1000"];
/// Key of the System V objects.
const KEY: i32 = 0x5359;
/// Time limit of a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens all doors and stays.
pub(crate) fn serve() -> ExitCode {
    let everywhere = [TcpListener::bind(("0.0.0.0", PORT)), TcpListener::bind(("::", PORT))];
    let by_name = SocketAddr::from_abstract_name(NAME).and_then(|name| UnixListener::bind_addr(&name));
    let by_path: Vec<_> = PLACES.iter().map(|place| UnixListener::bind(format!("{place}/{NAME}"))).collect();
    let made = [sys::make_shared_memory(KEY), sys::make_message_queue(KEY)];
    let failed = everywhere.iter().all(Result::is_err)
        || by_name.is_err()
        || by_path.iter().any(Result::is_err)
        || made.iter().any(Result::is_err);
    if failed {
        let _ = writeln!(std::io::stdout(), "{everywhere:?} {by_name:?} {by_path:?} {made:?}");
        return ExitCode::FAILURE;
    }
    stay()
}

/// Takes objects that the kernel counts for each user until it is refused, and holds them.
pub(crate) fn exhaust() -> ExitCode {
    let taken = [
        ("inotify", sys::take_all(sys::make_watcher)),
        ("timers", sys::take_all(sys::make_timer)),
        ("terminals", sys::take_all(sys::make_terminal)),
        ("shared memory", sys::take_all_numbered(|number| sys::make_shared_memory(KEY + 1 + number))),
    ];
    let _ = writeln!(std::io::stderr(), "{taken:?}");
    stay()
}

/// Tells the suite that everything is in place.
pub(crate) fn say_ready() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "ready")
}

/// Says so and waits to be ended.
pub(crate) fn stay() -> ExitCode {
    let said = say_ready();
    sys::wait_for_the_end();
    if said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Looks for the objects of `serve`, and for a port of the host at the given addresses.
pub(crate) fn reach(host: &[String]) -> ExitCode {
    let mut findings = vec![
        ProbeFinding::new("N13.tcp", connect(("127.0.0.1", PORT))),
        ProbeFinding::new("N13.tcp6", connect(("::1", PORT))),
        ProbeFinding::new("N13.abstract", abstract_socket()),
        ProbeFinding::new("N13.shared_memory", outcome(sys::find_shared_memory(KEY))),
        ProbeFinding::new("N13.message_queue", outcome(sys::find_message_queue(KEY))),
        ProbeFinding::new("R16.inotify", outcome(sys::make_watcher().map(|()| "made"))),
        ProbeFinding::new("R16.terminals", outcome(sys::make_terminal().map(|()| "made"))),
        ProbeFinding::new("R16.timers", outcome(sys::make_timer().map(|()| "made"))),
        ProbeFinding::new("R16.shared_memory", outcome(sys::make_shared_memory(KEY - 1).map(|()| "made"))),
    ];
    findings.extend(PLACES.iter().map(|place| {
        let found = UnixStream::connect(format!("{place}/{NAME}")).map(|_| "connected");
        ProbeFinding::new(format!("N13.socket.{place}"), outcome(found))
    }));
    findings.extend(host.iter().map(|address| ProbeFinding::new(format!("N12.{address}"), connect(address))));
    report(&findings)
}

fn connect(address: impl ToSocketAddrs) -> String {
    let connected = address.to_socket_addrs().and_then(|mut addresses| {
        let address = addresses.next().ok_or(std::io::ErrorKind::NotFound)?;
        TcpStream::connect_timeout(&address, PATIENCE).map(|_| "connected")
    });
    outcome(connected)
}

fn abstract_socket() -> String {
    let name = SocketAddr::from_abstract_name(NAME);
    outcome(name.and_then(|name| UnixStream::connect_addr(&name)).map(|_| "connected"))
}
