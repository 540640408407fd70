//! The optional members of `POST /schedule`, one function each.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::bounds;
use super::nearest::nearest;
use super::object::{Object, invalid, text_at, wrong_type};
use super::paths::workspace_path;
use super::schedule::{Budget, GitSource, InputFile, IsolationFloor, LimitsRequest, OnBreach, OnSilence};
use crate::{ApiError, ErrorCode};

pub(super) fn name(body: &Object<'_>) -> Result<Option<String>, ApiError> {
    let Some(name) = body.text("name")? else { return Ok(None) };
    if name.trim().is_empty() || name.chars().count() > bounds::JOB_NAME_CHARS {
        return Err(invalid("name", &format!("must have 1 to {} characters", bounds::JOB_NAME_CHARS)));
    }
    if name.chars().any(char::is_control) {
        return Err(invalid("name", "must not contain control characters"));
    }
    Ok(Some(name.to_owned()))
}

pub(super) fn files(body: &Object<'_>) -> Result<Vec<InputFile>, ApiError> {
    let Some(files) = body.object("files")? else { return Ok(Vec::new()) };
    let mut read = Vec::new();
    let mut total = 0_usize;
    for (path, content) in files.members() {
        let place = files.path_of(path);
        let bytes = file_content(&place, content)?;
        total = total.saturating_add(bytes.len());
        if total > bounds::FILES_BYTES {
            return Err(ApiError::new(
                ErrorCode::TooLarge,
                format!("`files` hold more than {} bytes", bounds::FILES_BYTES),
            )
            .with_hint("start a session and PUT large files to /jobs/{id}/files/{path}"));
        }
        read.push(InputFile { path: file_path(&place, path)?, bytes });
    }
    if read.len() > bounds::FILES {
        return Err(invalid("files", &format!("must be at most {}", bounds::FILES)));
    }
    refuse_files_within_files(&read)?;
    Ok(read)
}

fn file_path(place: &str, path: &str) -> Result<String, ApiError> {
    let checked = workspace_path(path)
        .map_err(|error| ApiError::new(ErrorCode::InvalidValue, format!("`{place}`: {}", error.message)))?;
    if checked.is_empty() || checked != path {
        return Err(invalid(place, "does not name a file"));
    }
    Ok(checked.to_owned())
}

fn file_content(place: &str, content: &Value) -> Result<Vec<u8>, ApiError> {
    match content {
        Value::String(text) => Ok(text.clone().into_bytes()),
        Value::Object(_) => {
            let object = Object::at(place.to_owned(), content)?;
            object.only(&["base64"])?;
            let encoded = object.needed_text("base64")?;
            STANDARD.decode(encoded).map_err(|_| invalid(&object.path_of("base64"), "is not base64"))
        }
        other => Err(wrong_type(place, "text or {\"base64\": \"…\"}", other)),
    }
}

/// `a` and `a/b` can't both be files.
fn refuse_files_within_files(files: &[InputFile]) -> Result<(), ApiError> {
    let names: std::collections::BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for name in &names {
        let parents = name.match_indices('/').map(|(end, _)| &name[..end]);
        if let Some(parent) = parents.into_iter().find(|parent| names.contains(parent)) {
            return Err(invalid("files", &format!("have `{parent}` both as a file and as a folder")));
        }
    }
    Ok(())
}

pub(super) fn env(body: &Object<'_>) -> Result<BTreeMap<String, String>, ApiError> {
    let Some(env) = body.object("env")? else { return Ok(BTreeMap::new()) };
    let mut variables = BTreeMap::new();
    let mut total = 0_usize;
    for (name, value) in env.members() {
        let place = env.path_of(name);
        if !is_variable_name(name) {
            return Err(invalid(
                &place,
                "is no name of a variable: letters, digits and `_`, not beginning with a digit",
            ));
        }
        let value = text_at(&place, value)?;
        if name.len() + value.len() > bounds::ENV_BYTES {
            return Err(invalid(&place, &format!("must be at most {} bytes", bounds::ENV_BYTES)));
        }
        total = total.saturating_add(name.len() + value.len() + 2);
        variables.insert(name.clone(), value.to_owned());
    }
    if variables.len() > bounds::ENV_VARIABLES || total > bounds::ENV_TOTAL_BYTES {
        let (count, bytes) = (bounds::ENV_VARIABLES, bounds::ENV_TOTAL_BYTES);
        return Err(invalid("env", &format!("must be at most {count} variables and {bytes} bytes")));
    }
    Ok(variables)
}

fn is_variable_name(name: &str) -> bool {
    let clean = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    clean && name.bytes().next().is_some_and(|first| !first.is_ascii_digit()) && name.len() <= 255
}

pub(super) fn model(body: &Object<'_>) -> Result<Option<String>, ApiError> {
    let Some(model) = body.text("model")? else { return Ok(None) };
    let printable = model.chars().all(|letter| letter.is_ascii_graphic());
    if model.is_empty() || model.len() > 200 || !printable {
        return Err(invalid("model", "must have 1 to 200 printable ASCII characters without spaces"));
    }
    Ok(Some(model.to_owned()))
}

pub(super) fn isolation(body: &Object<'_>) -> Result<IsolationFloor, ApiError> {
    let Some(floor) = body.text("isolation")? else { return Ok(IsolationFloor::Any) };
    Ok(match floor {
        "any" => IsolationFloor::Any,
        "container" => IsolationFloor::Container,
        "gvisor" => IsolationFloor::Gvisor,
        "vm" => IsolationFloor::Vm,
        name if DRIVERS.contains(&name) => IsolationFloor::Driver(name.to_owned()),
        other => {
            let error = invalid("isolation", "must be `any`, `container`, `gvisor`, `vm` or a driver's name");
            return Err(match nearest(other, &DRIVERS) {
                Some(meant) => error.with_hint(format!("did you mean `{meant}`?")),
                None => error.with_hint(format!("drivers: {}", DRIVERS.join(", "))),
            });
        }
    })
}

/// Every driver of the contract; whether one works here is the server's to say.
const DRIVERS: [&str; 8] = ["firecracker", "native", "oci", "docker", "qemu", "kubernetes", "nomad", "fake"];

pub(super) fn limits(body: &Object<'_>) -> Result<LimitsRequest, ApiError> {
    let Some(limits) = body.object("limits")? else { return Ok(LimitsRequest::default()) };
    limits.only(&["cpus", "memory_mib", "disk_mib", "pids", "timeout_s", "idle_timeout_s"])?;
    Ok(LimitsRequest {
        cpus: limits.number("cpus", bounds::CPUS)?,
        memory_mib: limits.whole("memory_mib", bounds::MEMORY_MIB)?,
        disk_mib: limits.whole("disk_mib", bounds::DISK_MIB)?,
        pids: limits.whole("pids", bounds::PIDS)?,
        timeout_s: limits.whole("timeout_s", bounds::TIMEOUT_S)?,
        idle_timeout_s: limits.whole("idle_timeout_s", bounds::TIMEOUT_S)?,
    })
}

pub(super) fn on_silence(body: &Object<'_>) -> Result<OnSilence, ApiError> {
    match body.text("on_silence")? {
        None | Some("end") => Ok(OnSilence::End),
        Some("go_on") => Ok(OnSilence::GoOn),
        Some(_) => Err(invalid("on_silence", "must be `end` or `go_on`")),
    }
}

pub(super) fn budget(body: &Object<'_>) -> Result<Budget, ApiError> {
    let Some(budget) = body.object("budget")? else { return Ok(Budget::default()) };
    budget.only(&["steps", "tokens", "usd", "on_breach"])?;
    let on_breach = match budget.text("on_breach")? {
        None => None,
        Some("ask") => Some(OnBreach::Ask),
        Some("end") => Some(OnBreach::End),
        Some(_) => return Err(invalid("budget.on_breach", "must be `ask` or `end`")),
    };
    Ok(Budget {
        steps: budget.whole("steps", bounds::STEPS)?,
        tokens: budget.whole("tokens", bounds::TOKENS)?,
        usd: budget.number("usd", bounds::USD)?,
        on_breach,
    })
}

pub(super) fn egress(body: &Object<'_>) -> Result<Vec<String>, ApiError> {
    let Some(rules) = body.list("egress")? else { return Ok(Vec::new()) };
    if rules.len() > bounds::EGRESS_RULES {
        return Err(invalid("egress", &format!("must be at most {} hosts", bounds::EGRESS_RULES)));
    }
    rules.iter().enumerate().map(|(index, rule)| egress_rule(&format!("egress[{index}]"), rule)).collect()
}

/// `host`, `host:port`, `*.host` or `*.host:port`. Addresses are refused: policy goes by name.
fn egress_rule(place: &str, rule: &Value) -> Result<String, ApiError> {
    let rule = text_at(place, rule)?;
    let (host, port) = match rule.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rule, None),
    };
    let port_fits = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    let name = host.strip_prefix("*.").unwrap_or(host);
    if !port_fits || !is_host_name(name) {
        return Err(invalid(place, "must be `host`, `host:port` or `*.host`, by name"));
    }
    Ok(rule.to_ascii_lowercase())
}

fn is_host_name(name: &str) -> bool {
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let numeric_end =
        name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    name.len() <= 253 && name.split('.').all(label_fits) && !numeric_end
}

pub(super) fn git(body: &Object<'_>) -> Result<Option<GitSource>, ApiError> {
    let Some(git) = body.object("git")? else { return Ok(None) };
    git.only(&["url", "ref"])?;
    let url = git.needed_text("url")?;
    let clean = url.bytes().all(|byte| byte.is_ascii_graphic()) && url.len() <= 2048;
    if !clean || !url.starts_with("https://") {
        return Err(invalid("git.url", "must be an `https://` address"));
    }
    let reference = git.text("ref")?;
    let reference_fits = |text: &str| {
        let clean = text.bytes().all(|byte| byte.is_ascii_graphic());
        clean && (1..=255).contains(&text.len()) && !text.starts_with('-')
    };
    if reference.is_some_and(|text| !reference_fits(text)) {
        return Err(invalid("git.ref", "must name a branch, tag or commit"));
    }
    Ok(Some(GitSource { url: url.to_owned(), reference: reference.map(str::to_owned) }))
}
