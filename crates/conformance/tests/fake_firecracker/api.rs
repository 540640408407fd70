//! The double's Firecracker: its arguments, its jail, its API, its one machine.

use std::convert::Infallible;
use std::fs::OpenOptions;
use std::os::unix::net::UnixListener as HostListener;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustix::process::{Gid, Uid};
use serde_json::{Value, json};
use tokio::net::UnixListener;

use crate::faults::{Faults, Transcript, own_folder};
use crate::guest;
use crate::jailer::JAIL;
use crate::schema::{self, Phase};

/// Options that a driver of ours may pass, and those that the jailer adds; all have a value.
const OPTIONS: [&str; 6] =
    ["--id", "--api-sock", "--level", "--start-time-us", "--start-time-cpu-us", "--parent-cpu-time-us"];

/// Machine of the double, as configured so far.
#[derive(Debug)]
struct Machine {
    faults: Faults,
    transcript: Transcript,
    phase: Phase,
    booted_from: Option<Value>,
    drives: Vec<Value>,
    vsock: Option<(HostListener, String)>,
}

/// Runs the double from its start to its end.
pub(crate) fn run(arguments: &[String]) {
    let mut socket = "/run/firecracker.socket".to_owned();
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { panic!("{arguments:?}: an option lacks its value") };
        assert!(OPTIONS.contains(&name.as_str()), "unknown option {name}");
        if name == "--api-sock" {
            socket = value.clone();
        }
    }
    let folder = own_folder();
    let (faults, mut transcript) = (Faults::read(&folder), Transcript::open(&folder));
    transcript.add("firecracker", arguments.into());
    assert!(!faults.dies_at_launch, "told to die");
    enter_jail();
    let machine = Machine {
        faults,
        transcript,
        phase: Phase::BeforeBoot,
        booted_from: None,
        drives: Vec::new(),
        vsock: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(serve(&socket, Arc::new(Mutex::new(machine))));
}

/// The part of the jailer's work that can only be done when the program is loaded, because it is linked dynamically.
fn enter_jail() {
    let Ok(jail) = std::env::var(JAIL) else { return };
    let mut parts = jail.splitn(3, ':');
    let mut next = || parts.next().unwrap();
    let (uid, gid, root) = (next().parse().unwrap(), next().parse().unwrap(), next());
    rustix::process::chroot(root).unwrap();
    std::env::set_current_dir("/").unwrap();
    rustix::thread::set_thread_groups(&[]).unwrap();
    let gid = Gid::from_raw(gid);
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    let uid = Uid::from_raw(uid);
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
}

async fn serve(socket: &str, machine: Arc<Mutex<Machine>>) {
    if machine.lock().faults.no_socket {
        std::future::pending::<()>().await;
    }
    let listener = UnixListener::bind(socket).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let machine = machine.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(request, machine.clone()));
            // A client that goes away in the middle is its own affair.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    machine: Arc<Mutex<Machine>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let stalls = machine.lock().stalls(&path);
    if stalls {
        std::future::pending::<()>().await;
    }
    let outcome = machine.lock().take(&method, &path, &body);
    let (status, text) = match outcome {
        Ok(()) => (StatusCode::NO_CONTENT, Vec::new()),
        Err(fault) => {
            (StatusCode::BAD_REQUEST, serde_json::to_vec(&json!({ "fault_message": fault })).unwrap())
        }
    };
    Ok(Response::builder().status(status).body(Full::new(text.into())).unwrap())
}

impl Machine {
    fn stalls(&mut self, path: &str) -> bool {
        let stalls = self.faults.stalls.as_deref() == Some(path);
        if stalls {
            self.transcript.add(path, json!("stalls"));
        }
        stalls
    }

    fn take(&mut self, method: &str, path: &str, body: &[u8]) -> Result<(), String> {
        if self.faults.dies.as_deref() == Some(path) {
            std::process::abort();
        }
        let checked = schema::check(self.faults.minor(), method, path, body, self.phase);
        let outcome = match (&checked, self.faults.refuses.as_deref() == Some(path)) {
            (Ok(_), true) => Err("told to refuse".to_owned()),
            (Ok(body), false) => self.apply(path, body.clone()),
            (Err(fault), _) => Err(fault.clone()),
        };
        self.transcript.add(
            path,
            json!({ "body": serde_json::from_slice::<Value>(body).ok(), "fault": outcome.as_ref().err() }),
        );
        outcome
    }

    /// Applies a request as the real Firecracker does, with the failures that it can have.
    fn apply(&mut self, path: &str, body: Value) -> Result<(), String> {
        match path {
            "/boot-source" => {
                readable(&body, "kernel_image_path")?;
                readable(&body, "initrd_path")?;
                self.booted_from = Some(body);
            }
            "/vsock" => {
                let uds = text(&body, "uds_path");
                let listener = HostListener::bind(&uds).map_err(|error| format!("bind {uds}: {error}"))?;
                self.vsock = Some((listener, uds));
            }
            "/actions" if body["action_type"] == "InstanceStart" => self.boot()?,
            "/actions" if body["action_type"] == "SendCtrlAltDel" && !self.faults.ignores_keys => {
                self.transcript.add("guest leaves", Value::Null);
                std::process::exit(0);
            }
            _ if path.starts_with("/drives/") => self.add_drive(body)?,
            _ => {}
        }
        Ok(())
    }

    fn add_drive(&mut self, drive: Value) -> Result<(), String> {
        let path = text(&drive, "path_on_host");
        let writes = drive["is_read_only"] == false;
        let opened = OpenOptions::new().read(true).write(writes).open(&path);
        opened.map_err(|error| format!("open the disk {path}: {error}"))?;
        if drive["is_root_device"] == true && self.drives.iter().any(|drive| drive["is_root_device"] == true)
        {
            return Err("a root device is there already".to_owned());
        }
        self.drives.push(drive);
        Ok(())
    }

    fn boot(&mut self) -> Result<(), String> {
        let source = self.booted_from.as_ref().ok_or("there is no kernel to boot")?;
        let (listener, uds) = self.vsock.as_ref().ok_or("the double's guest needs a vsock")?;
        let disks: Vec<_> = self.drives.iter().map(|drive| text(drive, "path_on_host")).collect();
        self.phase = Phase::AfterBoot;
        if !self.faults.mute_guest {
            guest::boot(&text(source, "boot_args"), &disks, (listener, uds))?;
        }
        Ok(())
    }
}

fn readable(body: &Value, member: &str) -> Result<(), String> {
    let path = text(body, member);
    std::fs::File::open(&path).map(drop).map_err(|error| format!("open {member} {path}: {error}"))
}

fn text(body: &Value, member: &str) -> String {
    body[member].as_str().unwrap_or_default().to_owned()
}
