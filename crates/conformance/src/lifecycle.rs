//! The driver's contract, from start to stop, over restarts of the server.

use std::time::Duration;

use tokio::time::timeout;

use super::session::dial;
use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError};
use sandyard_sandbox::driver::{Driver, FoundSandbox, Limits, LinkError, ListError, Liveness, SandboxId};

/// Longest wait for a state that should come at once.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// Delay between two lists of a driver that can't tell yet which machines live.
const LIST_DELAY: Duration = Duration::from_millis(20);

/// Holds a driver to its contract.
pub async fn lifecycle(subject: &DriverSubject) -> Result<Vec<CheckOutcome>, SuiteError> {
    let mut outcomes = nothing_there(subject).await;
    let driver = (subject.open)();
    let spec = subject.spec("life-1", Limits::default())?;
    let session = SandboxSession::start(driver.clone(), spec.clone()).await?;
    outcomes.push(judge("ping", session.machine.ping().await));
    outcomes.push(judge("start again", driver.start(&spec).await));
    outcomes.push(listed("list alive", &*driver, &spec.id, Some(Liveness::Alive)).await);
    let ran = session.shell("echo kept > kept.txt; hostname").await?;
    outcomes.push(CheckOutcome::new("run", ran.exit.code == 0, format!("{ran:?}")));
    outcomes.push(judge("usage", driver.usage(&spec.id).await));
    drop((session, driver));

    let driver = (subject.open)();
    outcomes.push(listed("list after restart", &*driver, &spec.id, Some(Liveness::Alive)).await);
    let machine = dial(&*driver, &spec, 2).await?;
    outcomes.push(judge("ping after restart", machine.ping().await));
    outcomes.push(judge("stop", driver.stop(&spec.id).await));
    let dead = timeout(CHECK_TIMEOUT, driver.wait_dead(&spec.id)).await;
    outcomes.push(CheckOutcome::new("wait_dead after stop", dead.is_ok(), "still waiting"));
    outcomes.push(judge("stop again", driver.stop(&spec.id).await));
    outcomes.push(listed("list after stop", &*driver, &spec.id, None).await);
    outcomes.extend(second_on_the_same_workspace(subject, &*driver, &spec.workspace).await?);
    Ok(outcomes)
}

/// Calls about a sandbox that never existed.
async fn nothing_there(subject: &DriverSubject) -> Vec<CheckOutcome> {
    let driver = (subject.open)();
    let Some(id) = SandboxId::parse("never-was") else { return Vec::new() };
    let dead = timeout(CHECK_TIMEOUT, driver.wait_dead(&id)).await;
    let link = timeout(CHECK_TIMEOUT, driver.next_link(&id)).await;
    let refused = matches!(link, Ok(Err(LinkError::NotRunning(_))));
    vec![
        CheckOutcome::new("wait_dead of nothing", dead.is_ok(), "waits"),
        CheckOutcome::new("next_link of nothing", refused, format!("{:?}", link.map(|link| link.map(drop)))),
        judge("stop of nothing", driver.stop(&id).await),
        CheckOutcome::new("usage of nothing", driver.usage(&id).await.is_err(), "answered"),
    ]
}

/// Starts another sandbox, which must find the files of the first and whose death must be noticed.
async fn second_on_the_same_workspace(
    subject: &DriverSubject,
    driver: &dyn Driver,
    workspace: &std::path::Path,
) -> Result<Vec<CheckOutcome>, SuiteError> {
    let mut spec = subject.spec("life-2", Limits::default())?;
    workspace.clone_into(&mut spec.workspace);
    let opened = (subject.open)();
    // A machine that boots slowly also answers slowly.
    spec.lifetime_s = 4 + opened.boot_time().as_secs() / 4;
    let session = SandboxSession::start(opened.clone(), spec.clone()).await?;
    let ran = session.shell("cat kept.txt && echo more >> kept.txt && stat -c %u:%g kept.txt").await?;
    let kept = ran.stdout.starts_with("kept\n") && ran.exit.code == 0;
    let mut outcomes = vec![CheckOutcome::new("workspace is kept", kept, format!("{ran:?}"))];
    let died = timeout(CHECK_TIMEOUT + opened.boot_time(), opened.wait_dead(&spec.id)).await;
    outcomes.push(CheckOutcome::new("L18 ends itself after its lifetime", died.is_ok(), "still alive"));
    outcomes.push(listed("list dead", &*opened, &spec.id, Some(Liveness::Dead)).await);
    let link = timeout(CHECK_TIMEOUT, opened.next_link(&spec.id)).await;
    let refused = matches!(link, Ok(Err(LinkError::NotRunning(_))));
    outcomes.push(CheckOutcome::new("next_link of the dead", refused, "a link or none in time"));
    outcomes.push(judge("stop of the dead", opened.stop(&spec.id).await));
    outcomes.push(listed("list after all", driver, &spec.id, None).await);
    Ok(outcomes)
}

/// Judges the list of a driver once the driver can tell which machines live.
async fn listed(
    check: &str,
    driver: &dyn Driver,
    id: &SandboxId,
    liveness: Option<Liveness>,
) -> CheckOutcome {
    let expected: Vec<_> =
        liveness.map(|liveness| FoundSandbox { id: id.clone(), liveness }).into_iter().collect();
    let both = async { Ok::<_, ListError>((known_list(driver).await?, driver.find(id).await?)) };
    match timeout(CHECK_TIMEOUT, both).await {
        // The list and the look for one sandbox must agree.
        Ok(Ok(found)) => CheckOutcome::new(check, found == (expected, liveness), format!("{found:?}")),
        Ok(Err(error)) => CheckOutcome::new(check, false, error.to_string()),
        Err(_) => CheckOutcome::new(check, false, "liveness stayed unknown"),
    }
}

async fn known_list(driver: &dyn Driver) -> Result<Vec<FoundSandbox>, ListError> {
    loop {
        let found = driver.list().await?;
        if found.iter().all(|found| found.liveness != Liveness::Unknown) {
            return Ok(found);
        }
        tokio::time::sleep(LIST_DELAY).await;
    }
}

fn judge<T, E: std::error::Error>(check: &str, result: Result<T, E>) -> CheckOutcome {
    let found = match &result {
        Ok(_) => "done".to_owned(),
        Err(error) => match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    };
    CheckOutcome::new(check, result.is_ok(), found)
}
