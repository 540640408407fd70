//! The rules for the members of `POST /schedule` that JSON types can't express, one function each.

use std::collections::BTreeMap;

use sandyard_protocol::drivers;

use super::bounds;
use super::file_body::FileBody;
use super::paths::workspace_path;
use super::refusal::{invalid, member_path, suggest};
use crate::{ApiError, ErrorCode};

pub(super) fn check_length(path: &str, text: &str, most: usize) -> Result<(), ApiError> {
    if text.len() > most {
        return Err(invalid(path, &format!("must be at most {most} bytes")));
    }
    Ok(())
}

pub(super) fn check_name(name: &str) -> Result<(), ApiError> {
    if name.trim().is_empty() || name.chars().count() > bounds::JOB_NAME_CHARS {
        return Err(invalid("name", &format!("must have 1 to {} characters", bounds::JOB_NAME_CHARS)));
    }
    if name.chars().any(char::is_control) {
        return Err(invalid("name", "must not contain control characters"));
    }
    Ok(())
}

pub(super) fn check_files(files: &BTreeMap<String, FileBody>) -> Result<(), ApiError> {
    let total = files.values().map(FileBody::len).fold(0, usize::saturating_add);
    if total > bounds::FILES_BYTES {
        let problem = format!("`files` hold more than {} bytes", bounds::FILES_BYTES);
        return Err(ApiError::new(ErrorCode::TooLarge, problem)
            .with_hint("start a session and PUT large files to /jobs/{id}/files/{path}"));
    }
    for path in files.keys() {
        let place = member_path("files", path);
        let checked = workspace_path(path).map_err(|error| {
            ApiError::new(ErrorCode::InvalidValue, format!("`{place}`: {}", error.message))
        })?;
        if checked.is_empty() || checked != path {
            return Err(invalid(&place, "does not name a file"));
        }
    }
    if files.len() > bounds::FILES {
        return Err(invalid("files", &format!("must be at most {}", bounds::FILES)));
    }
    check_nesting(files)
}

/// `a` and `a/b` can't both be files.
fn check_nesting(files: &BTreeMap<String, FileBody>) -> Result<(), ApiError> {
    for path in files.keys() {
        let mut parents = path.match_indices('/').map(|(end, _)| &path[..end]);
        if let Some(parent) = parents.find(|parent| files.contains_key(*parent)) {
            return Err(invalid("files", &format!("have `{parent}` both as a file and as a folder")));
        }
    }
    Ok(())
}

pub(super) fn check_env(env: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let mut total = 0_usize;
    for (name, value) in env {
        if !is_variable_name(name) {
            return Err(invalid(
                &member_path("env", name),
                "is no name of a variable: letters, digits and `_`, not beginning with a digit",
            ));
        }
        if name.len() + value.len() > bounds::ENV_BYTES {
            let problem = format!("must be at most {} bytes", bounds::ENV_BYTES);
            return Err(invalid(&member_path("env", name), &problem));
        }
        // The kernel stores `NAME=value` and a final NUL.
        total = total.saturating_add(name.len() + value.len() + 2);
    }
    if env.len() > bounds::ENV_VARIABLES || total > bounds::ENV_TOTAL_BYTES {
        let (count, bytes) = (bounds::ENV_VARIABLES, bounds::ENV_TOTAL_BYTES);
        return Err(invalid("env", &format!("must be at most {count} variables and {bytes} bytes")));
    }
    Ok(())
}

fn is_variable_name(name: &str) -> bool {
    let clean = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    clean && name.bytes().next().is_some_and(|first| !first.is_ascii_digit()) && name.len() <= 255
}

pub(super) fn check_model(model: &str) -> Result<(), ApiError> {
    let printable = model.chars().all(|letter| letter.is_ascii_graphic());
    if model.is_empty() || model.len() > 200 || !printable {
        return Err(invalid("model", "must have 1 to 200 printable ASCII characters without spaces"));
    }
    Ok(())
}

pub(super) fn check_isolation(floor: &str) -> Result<(), ApiError> {
    if matches!(floor, "any" | "container" | "gvisor" | "vm") || drivers::NAMES.contains(&floor) {
        return Ok(());
    }
    let error = invalid("isolation", "must be `any`, `container`, `gvisor`, `vm` or a driver's name");
    let error = suggest(error, floor, &drivers::NAMES);
    Err(match error.hint {
        Some(_) => error,
        None => error.with_hint(format!("drivers: {}", drivers::NAMES.join(", "))),
    })
}

pub(super) fn check_egress(rules: &[String]) -> Result<(), ApiError> {
    if rules.len() > bounds::EGRESS_RULES {
        return Err(invalid("egress", &format!("must be at most {} hosts", bounds::EGRESS_RULES)));
    }
    match rules.iter().position(|rule| !is_egress_rule(rule)) {
        Some(index) => {
            Err(invalid(&format!("egress[{index}]"), "must be `host`, `host:port` or `*.host`, by name"))
        }
        None => Ok(()),
    }
}

/// `host`, `host:port`, `*.host` or `*.host:port`. Addresses are rejected: the policy goes by name.
fn is_egress_rule(rule: &str) -> bool {
    let (host, port) = match rule.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rule, None),
    };
    let port_fits = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    port_fits && is_host_name(host.strip_prefix("*.").unwrap_or(host))
}

pub(super) fn is_host_name(name: &str) -> bool {
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
