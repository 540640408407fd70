//! The part of Firecracker's published OpenAPI that our driver may use: members, types, ranges, values,
//! phase, and first version. Facts of versions 1.13 to 1.16; a request that is not in the table is refused.

use serde_json::Value;

/// Second number of a version 1.x.
pub(crate) type Minor = u32;

/// First version of requests that all usable versions know.
const ALWAYS: Minor = 13;

/// When a request may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    BeforeBoot,
    AfterBoot,
}

/// Type of a member.
#[derive(Debug)]
enum Kind {
    Text,
    Flag,
    Number {
        least: u64,
        most: u64,
    },
    OneOf(&'static [&'static str]),
    /// Letters, digits and underscores, the same as in the path.
    IdOfPath,
    Object(&'static [Member]),
}

#[derive(Debug)]
struct Member {
    name: &'static str,
    kind: Kind,
    required: bool,
    since: Minor,
}

/// One operation; all of them are `PUT`.
#[derive(Debug)]
struct Operation {
    path: &'static str,
    members: &'static [Member],
    since: Minor,
}

const fn required(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, required: true, since: ALWAYS }
}

const fn optional(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, required: false, since: ALWAYS }
}

const fn later(since: Minor, name: &'static str, kind: Kind) -> Member {
    Member { name, kind, required: false, since }
}

const fn operation(path: &'static str, members: &'static [Member]) -> Operation {
    Operation { path, members, since: ALWAYS }
}

/// A number of which the API says that it has 64 bits and a sign, or nothing.
const ANY: u64 = i64::MAX.cast_unsigned();

const TOKEN_BUCKET: &[Member] = &[
    required("size", Kind::Number { least: 0, most: ANY }),
    required("refill_time", Kind::Number { least: 0, most: ANY }),
    optional("one_time_burst", Kind::Number { least: 0, most: ANY }),
];

const RATE_LIMITER: &[Member] =
    &[optional("bandwidth", Kind::Object(TOKEN_BUCKET)), optional("ops", Kind::Object(TOKEN_BUCKET))];

const OPERATIONS: &[Operation] = &[
    operation(
        "/machine-config",
        &[
            required("vcpu_count", Kind::Number { least: 1, most: 32 }),
            required("mem_size_mib", Kind::Number { least: 1, most: ANY }),
            optional("smt", Kind::Flag),
            optional("track_dirty_pages", Kind::Flag),
            optional("huge_pages", Kind::OneOf(&["None", "2M"])),
            optional("cpu_template", Kind::OneOf(&["C3", "T2", "T2S", "T2CL", "T2A", "V1N1", "None"])),
        ],
    ),
    operation(
        "/boot-source",
        &[
            required("kernel_image_path", Kind::Text),
            optional("initrd_path", Kind::Text),
            optional("boot_args", Kind::Text),
        ],
    ),
    operation(
        "/drives/{id}",
        &[
            required("drive_id", Kind::IdOfPath),
            required("is_root_device", Kind::Flag),
            // Required of a disk that is a file, which all of ours are.
            required("is_read_only", Kind::Flag),
            required("path_on_host", Kind::Text),
            optional("partuuid", Kind::Text),
            optional("cache_type", Kind::OneOf(&["Unsafe", "Writeback"])),
            optional("io_engine", Kind::OneOf(&["Sync", "Async"])),
            optional("rate_limiter", Kind::Object(RATE_LIMITER)),
        ],
    ),
    operation(
        "/vsock",
        &[
            required("guest_cid", Kind::Number { least: 3, most: 0xffff_ffff }),
            required("uds_path", Kind::Text),
            optional("vsock_id", Kind::Text),
        ],
    ),
    operation("/entropy", &[optional("rate_limiter", Kind::Object(RATE_LIMITER))]),
    operation(
        "/actions",
        &[required("action_type", Kind::OneOf(&["FlushMetrics", "InstanceStart", "SendCtrlAltDel"]))],
    ),
    Operation {
        path: "/serial",
        members: &[
            later(14, "serial_out_path", Kind::Text),
            later(16, "rate_limiter", Kind::Object(TOKEN_BUCKET)),
        ],
        since: 14,
    },
];

/// Holds one request to the table; the reason of a refusal if it does not pass.
pub(crate) fn check(
    version: Minor,
    method: &str,
    path: &str,
    body: &[u8],
    phase: Phase,
) -> Result<Value, String> {
    let find = |operation: &&Operation| operation.since <= version && id_of(operation.path, path).is_some();
    let operation = OPERATIONS.iter().find(find).filter(|_| method == "PUT");
    let operation = operation.ok_or_else(|| format!("no operation {method} {path} is known"))?;
    let body: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is no JSON: {error}"))?;
    let id = id_of(operation.path, path).unwrap_or_default();
    check_members(operation.members, &body, id, version)?;
    let starts = body.get("action_type").is_none_or(|action| action == "InstanceStart");
    let wanted = if starts { Phase::BeforeBoot } else { Phase::AfterBoot };
    if wanted != phase {
        return Err(format!("{path} is not supported {phase:?}"));
    }
    Ok(body)
}

/// Returns the part of a path that stands for `{id}` if the path fits the pattern; empty where the pattern
/// has no id.
fn id_of<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    match pattern.strip_suffix("{id}") {
        Some(prefix) => path.strip_prefix(prefix).filter(|id| !id.is_empty() && !id.contains('/')),
        None => (pattern == path).then_some(""),
    }
}

fn check_members(members: &[Member], body: &Value, id: &str, version: Minor) -> Result<(), String> {
    let object = body.as_object().ok_or("an object was expected")?;
    for name in object.keys() {
        if !members.iter().any(|member| member.name == name && member.since <= version) {
            return Err(format!("unknown member {name}"));
        }
    }
    for member in members {
        match object.get(member.name) {
            Some(value) => {
                member.kind.check(value, id, version).map_err(|why| format!("{}: {why}", member.name))?;
            }
            None if member.required => return Err(format!("missing member {}", member.name)),
            None => {}
        }
    }
    Ok(())
}

impl Kind {
    fn check(&self, value: &Value, id: &str, version: Minor) -> Result<(), String> {
        let clean = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let fits = match self {
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Number { least, most } => {
                value.as_u64().is_some_and(|number| (*least..=*most).contains(&number))
            }
            Self::OneOf(known) => value.as_str().is_some_and(|text| known.contains(&text)),
            Self::IdOfPath => value.as_str().is_some_and(|text| text == id && clean(text)),
            Self::Object(members) => return check_members(members, value, id, version),
        };
        if fits { Ok(()) } else { Err(format!("{value} is not allowed: {self:?}")) }
    }
}
