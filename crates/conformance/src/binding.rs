//! Late binding: a sandbox that runs with provisional limits is given those of its job.

use sandyard_sandbox::driver::{BindError, Binding, BindingPart, IsolationLevel, Limits};

use super::{Outcome, Session, SessionError, Subject};

/// What a parked sandbox gets: too little for the command below.
const PARKED: Limits = Limits { cpus: 0.5, memory_mib: 128, disk_mib: 64, pids: 64 };
/// Enough for it.
const BOUND: Limits = Limits { cpus: 1.0, memory_mib: 512, disk_mib: 64, pids: 64 };
/// Holds 200 MiB in memory: `tail` keeps the last line, which never ends.
const EAT: &str = "set -o pipefail; head -c 200M /dev/zero | tail -n 1 > /dev/null";

/// Binds a running sandbox, up and down again, and holds a driver to what it says it can bind.
pub async fn binding(subject: &Subject) -> Result<Vec<Outcome>, SessionError> {
    let driver = (subject.open)();
    let supported = driver.binds();
    let session = Session::start(driver.clone(), subject.spec("bind-1", PARKED)?).await?;
    let id = session.spec.id.clone();
    let bind = |limits| Binding { limits, workspace: None };
    let mut outcomes = Vec::new();
    if supported.limits {
        let limited = driver.isolation().level > IsolationLevel::None;
        for (check, limits, fits) in
            [("bind.parked", PARKED, false), ("bind.raised", BOUND, true), ("bind.lowered", PARKED, false)]
        {
            let bound = driver.bind(&id, &bind(limits)).await;
            outcomes.push(Outcome::new(format!("{check} limits"), bound.is_ok(), format!("{bound:?}")));
            if limited {
                let ran = session.shell(EAT).await?;
                outcomes.push(Outcome::new(check, (ran.exit.code == 0) == fits, format!("{ran:?}")));
            }
        }
    } else {
        let refused = driver.bind(&id, &bind(BOUND)).await;
        let typed = matches!(refused, Err(BindError::Unsupported { part: BindingPart::Limits, .. }));
        outcomes.push(Outcome::new("bind of limits is unsupported", typed, format!("{refused:?}")));
    }
    if !supported.workspace {
        let elsewhere = Binding { limits: BOUND, workspace: Some(subject.workspaces.clone()) };
        let refused = driver.bind(&id, &elsewhere).await;
        let typed = matches!(refused, Err(BindError::Unsupported { .. }));
        outcomes.push(Outcome::new("bind of a workspace is unsupported", typed, format!("{refused:?}")));
    }
    session.stop().await?;
    let gone = driver.bind(&id, &bind(BOUND)).await;
    outcomes.push(Outcome::new("bind of nothing", gone.is_err(), "answered"));
    Ok(outcomes)
}
