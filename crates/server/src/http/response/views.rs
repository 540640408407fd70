//! From the nouns of `app` to the views of the contract.

use sandyard_api::{
    AuditView, DriverOffer, DriverState, DriverView, ExplanationView, ImageView, IsolationView, JobView,
    LimitsView, RecordingView, StatsView, Timestamp, UsageView, WaitingView, WantedResource,
};
use sandyard_sandbox::driver::{Availability, DriverVerdict, Offer};

use crate::app;
use crate::job::EffectiveLimits;

/// A job's whole status.
pub(in crate::http) fn job(status: &app::FullJobStatus) -> JobView {
    let state = status.state;
    let id = status.id.as_str();
    let usage = status.usage.unwrap_or_default();
    JobView {
        name: status.name.clone(),
        kind: status.kind,
        input: status.brief.input.clone(),
        status: state.status(),
        state,
        sandbox: status.sandbox,
        reason: status.reason.clone(),
        waiting_for: status.waiting_for.as_ref().map(waiting),
        question: status.question.clone(),
        isolation: IsolationView {
            requested: status.isolation.requested.clone(),
            effective: status.isolation.effective.clone(),
            level: status.isolation.level.map(|level| level.as_str().to_owned()),
            runtime: status.isolation.runtime.clone(),
            reason: status.isolation.reason.clone(),
        },
        created_at: Timestamp::from_unix_ms(status.created_at_ms),
        started_at: status.started_at_ms.map(Timestamp::from_unix_ms),
        finished_at: status.finished_at_ms.map(Timestamp::from_unix_ms),
        sandbox_until: status.sandbox_until_ms.map(Timestamp::from_unix_ms),
        expires_at: status.expires_at_ms.map(Timestamp::from_unix_ms),
        stdout: status.stdout_tail.clone(),
        stderr: status.stderr_tail.clone(),
        exit_code: status.exit_code,
        error: status.error.clone(),
        summary: status.summary.clone(),
        download_url: status.download.then(|| format!("/jobs/{id}/download")),
        explanation: status.explanation.as_ref().map(|summary| ExplanationView {
            summary: summary.clone(),
            page_url: format!("/jobs/{id}/explained"),
            diagram_url: format!("/jobs/{id}/diagram.svg"),
        }),
        recording: (status.recorded_moments > 0).then(|| RecordingView {
            moments: status.recorded_moments,
            bytes: status.recorded_bytes,
            frames_url: format!("/jobs/{id}/frames"),
        }),
        desktop_url: format!("/jobs/{id}/desktop/"),
        lab_url: format!("/jobs/{id}/lab"),
        limits: limits(&status.limits),
        egress: status.brief.egress.clone(),
        env_names: status.brief.env_names.clone(),
        model: status.brief.model.clone(),
        usage: UsageView {
            cpu_s: usage.cpu_s,
            peak_memory_bytes: usage.peak_memory_bytes,
            tokens_in: status.tokens_in,
            tokens_out: status.tokens_out,
            usd: status.usd,
            egress_bytes: status.egress_bytes,
        },
        audit: status.audit.as_ref().map(|head| AuditView {
            records: head.records,
            head: head.head.clone(),
            signature: head.signature.clone(),
            key: head.key.clone(),
        }),
        job_id: status.id.clone(),
    }
}

fn limits(limits: &EffectiveLimits) -> LimitsView {
    let machine = &limits.machine;
    LimitsView {
        cpus: machine.cpus,
        memory_mib: machine.memory_mib,
        disk_mib: machine.disk_mib,
        pids: machine.pids,
        io_mib_s: machine.io_mib_s,
        timeout_s: limits.timeout_s,
        idle_timeout_s: limits.idle_timeout_s,
    }
}

/// A measurement on the wire. `earlier` is the one before it.
pub(in crate::http) fn stats(now: &app::JobMeasure, earlier: Option<&app::JobMeasure>) -> StatsView {
    StatsView {
        at: Timestamp::from_unix_ms(now.at_ms),
        state: now.state,
        sandbox: now.sandbox,
        cpu_s: now.usage.cpu_s,
        cpus: earlier.and_then(|earlier| cpus(now, earlier)),
        cpus_limit: now.limits.machine.cpus,
        memory_bytes: now.usage.memory_bytes,
        peak_memory_bytes: now.usage.peak_memory_bytes,
        memory_limit_bytes: now.limits.machine.memory_mib.saturating_mul(1024 * 1024),
        egress_bytes: now.egress_bytes,
        tokens_in: now.tokens_in,
        tokens_out: now.tokens_out,
        usd: now.usd,
        left_s: now.left_s,
    }
}

/// Processors in use between two measurements.
#[expect(clippy::cast_precision_loss, reason = "milliseconds between two measurements are few")]
fn cpus(now: &app::JobMeasure, earlier: &app::JobMeasure) -> Option<f64> {
    let passed_ms = now.at_ms.checked_sub(earlier.at_ms).filter(|passed_ms| *passed_ms > 0)?;
    let used_s = (now.usage.cpu_s - earlier.usage.cpu_s).max(0.0);
    Some((used_s * 1e5 / passed_ms as f64).round() / 100.0)
}

fn waiting(wait: &app::JobWait) -> WaitingView {
    let resource = match wait {
        app::JobWait::Room(app::RoomShortage::Sandboxes { .. }) => WantedResource::Sandboxes,
        app::JobWait::Room(app::RoomShortage::Memory { .. }) => WantedResource::Memory,
        app::JobWait::Room(app::RoomShortage::Disk { .. } | app::RoomShortage::DiskSpace { .. }) => {
            WantedResource::Disk
        }
        app::JobWait::Driver(_) => WantedResource::Driver,
        app::JobWait::Turn(_) => WantedResource::Turn,
    };
    WaitingView { resource, message: wait.to_string() }
}

/// A driver on the wire.
pub(in crate::http) fn driver(driver: app::DriverStatus) -> DriverView {
    let verdict = driver.availability.as_ref().map(|availability| availability.verdict);
    let availability = driver.availability.unwrap_or_else(|| Availability::untried("being tried"));
    DriverView {
        name: driver.name.to_owned(),
        usable: verdict == Some(DriverVerdict::Usable),
        state: match verdict {
            None => DriverState::Trying,
            Some(DriverVerdict::Usable) => DriverState::Usable,
            Some(DriverVerdict::Untried) => DriverState::Untried,
            Some(DriverVerdict::Missing) => DriverState::Missing,
        },
        offer: match availability.offer {
            Offer::Always => DriverOffer::Always,
            Offer::WhenNeeded => DriverOffer::WhenNeeded,
            Offer::WhenNamed => DriverOffer::WhenNamed,
        },
        level: driver.isolation.level.as_str().to_owned(),
        runtime: driver.isolation.runtime,
        detail: availability.detail,
        fix: availability.fix,
        making: driver.making,
    }
}

/// An image on the wire, without its path on the host.
pub(in crate::http) fn image(flavour: app::ImageFlavour, state: app::ImageState) -> ImageView {
    let (ready, detail) = match state {
        app::ImageState::Ready { .. } => (true, "ready".to_owned()),
        app::ImageState::Preparing { percent, step } => (false, format!("{percent} %: {step}")),
        app::ImageState::Missing { detail, hint } => (false, format!("{detail}; {hint}")),
    };
    ImageView { flavour: flavour.as_str().to_owned(), ready, detail }
}
