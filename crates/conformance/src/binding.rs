//! Late binding: a running sandbox with provisional limits gets those of its job.

use std::time::Duration;

use sandyard_sandbox::driver::{BindError, Binding, BindingPart, IsolationLevel, Limits};

use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError};

/// Limits of a parked sandbox, too low for either script below.
const PARKED_LIMITS: Limits = Limits { cpus: 0.5, memory_mib: 128, disk_mib: 64, pids: 64, io_mib_s: 256 };
/// Limits of its job, enough for both.
const BOUND_LIMITS: Limits = Limits { cpus: 1.0, memory_mib: 512, disk_mib: 64, pids: 256, io_mib_s: 256 };
/// Holds 200 MiB in memory: `tail` keeps the last line, which never ends.
const EAT_MEMORY: &str = "set -o pipefail; head -c 200M /dev/zero | tail -n 1 > /dev/null";
/// Attempts to start a command after a change of limits, and the delay between two: five seconds in all.
const ROOM_CHECKS: u32 = 100;
const ROOM_CHECK_DELAY: Duration = Duration::from_millis(50);
/// Starts 100 processes and prints how many it got.
const EAT_PROCESSES: [&str; 3] = ["/workspace/probe", "fork-many", "100"];

/// Waits until a command can be started: killed processes count until they are reaped, so a limit that was just lowered may
/// refuse the next command for a moment.
async fn wait_for_room(session: &SandboxSession) {
    for _ in 0..ROOM_CHECKS {
        if session.run(&["true"]).await.is_ok() {
            return;
        }
        tokio::time::sleep(ROOM_CHECK_DELAY).await;
    }
}

/// Binds a running sandbox to higher and lower limits, and checks the driver against its own `binds`.
pub async fn binding(subject: &DriverSubject) -> Result<Vec<CheckOutcome>, SuiteError> {
    let driver = (subject.open)();
    let supported = driver.binds();
    let session = SandboxSession::start(driver.clone(), subject.spec("bind-1", PARKED_LIMITS)?).await?;
    let id = session.spec.id.clone();
    let bind = |limits| Binding { limits, workspace: None };
    let mut outcomes = Vec::new();
    if supported.limits {
        let limited = driver.isolation().level > IsolationLevel::None;
        session.upload_probe().await?;
        for (check, limits, fits) in [
            ("bind.parked", PARKED_LIMITS, false),
            ("bind.raised", BOUND_LIMITS, true),
            ("bind.lowered", PARKED_LIMITS, false),
        ] {
            // Twice, because the second call must change nothing.
            for call in ["first", "again"] {
                let bound = driver.bind(&id, &bind(limits)).await;
                outcomes.push(CheckOutcome::new(
                    format!("{check} {call}"),
                    bound.is_ok(),
                    format!("{bound:?}"),
                ));
            }
            if limited {
                wait_for_room(&session).await;
                let ran = session.shell(EAT_MEMORY).await?;
                let judged = (ran.exit.code == 0) == fits;
                outcomes.push(CheckOutcome::new(format!("{check} memory"), judged, format!("{ran:?}")));
                let ran = session.run(&EAT_PROCESSES).await?;
                // Ends the processes while these limits still leave room for a shell, which ends with them.
                let _ = session.shell("kill -9 -1").await;
                let judged = (ran.stdout.trim() == "100") == fits;
                outcomes.push(CheckOutcome::new(format!("{check} processes"), judged, format!("{ran:?}")));
            }
        }
    } else {
        let refused = driver.bind(&id, &bind(BOUND_LIMITS)).await;
        let typed = matches!(refused, Err(BindError::Unsupported { part: BindingPart::Limits, .. }));
        outcomes.push(CheckOutcome::new("bind of limits is unsupported", typed, format!("{refused:?}")));
    }
    if !supported.workspace {
        let elsewhere = Binding { limits: BOUND_LIMITS, workspace: Some(subject.workspaces.clone()) };
        let refused = driver.bind(&id, &elsewhere).await;
        let typed = matches!(refused, Err(BindError::Unsupported { .. }));
        outcomes.push(CheckOutcome::new("bind of a workspace is unsupported", typed, format!("{refused:?}")));
    }
    session.stop().await?;
    let gone = driver.bind(&id, &bind(BOUND_LIMITS)).await;
    outcomes.push(CheckOutcome::new("bind of nothing", gone.is_err(), "answered"));
    Ok(outcomes)
}
