//! What Firecracker's published OpenAPI says about the requests that a driver of ours may make: members, types, ranges, values,
//! and when. Facts of version 1.16, checked without mercy: whatever is not in the table is refused.

use serde_json::Value;

/// When a request may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    BeforeBoot,
    AfterBoot,
}

/// What a member holds.
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
}

/// One operation; all of them are `PUT`.
#[derive(Debug)]
struct Operation {
    path: &'static str,
    members: &'static [Member],
}

const fn required(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, required: true }
}

const fn optional(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, required: false }
}

const ANY: u64 = u64::MAX;

const TOKEN_BUCKET: &[Member] = &[
    required("size", Kind::Number { least: 0, most: ANY }),
    required("refill_time", Kind::Number { least: 0, most: ANY }),
    optional("one_time_burst", Kind::Number { least: 0, most: ANY }),
];

const RATE_LIMITER: &[Member] =
    &[optional("bandwidth", Kind::Object(TOKEN_BUCKET)), optional("ops", Kind::Object(TOKEN_BUCKET))];

const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/machine-config",
        members: &[
            required("vcpu_count", Kind::Number { least: 1, most: 32 }),
            required("mem_size_mib", Kind::Number { least: 1, most: ANY }),
            optional("smt", Kind::Flag),
            optional("track_dirty_pages", Kind::Flag),
            optional("huge_pages", Kind::OneOf(&["None", "2M"])),
            optional("cpu_template", Kind::OneOf(&["C3", "T2", "T2S", "T2CL", "T2A", "V1N1", "None"])),
        ],
    },
    Operation {
        path: "/boot-source",
        members: &[
            required("kernel_image_path", Kind::Text),
            optional("initrd_path", Kind::Text),
            optional("boot_args", Kind::Text),
        ],
    },
    Operation {
        path: "/drives/{id}",
        members: &[
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
    },
    Operation {
        path: "/vsock",
        members: &[
            required("guest_cid", Kind::Number { least: 3, most: 0xffff_ffff }),
            required("uds_path", Kind::Text),
            optional("vsock_id", Kind::Text),
        ],
    },
    Operation { path: "/entropy", members: &[optional("rate_limiter", Kind::Object(RATE_LIMITER))] },
    Operation {
        path: "/actions",
        members: &[required(
            "action_type",
            Kind::OneOf(&["FlushMetrics", "InstanceStart", "SendCtrlAltDel"]),
        )],
    },
];

/// Holds one request to the table; the reason of a refusal if it does not pass.
pub(crate) fn check(method: &str, path: &str, body: &[u8], phase: Phase) -> Result<Value, String> {
    let find = |operation: &&Operation| id_of(operation.path, path).is_some();
    let operation = OPERATIONS.iter().find(find).filter(|_| method == "PUT");
    let operation = operation.ok_or_else(|| format!("no operation {method} {path} is known"))?;
    let body: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is no JSON: {error}"))?;
    check_members(operation.members, &body, id_of(operation.path, path).unwrap_or_default())?;
    let starts = body.get("action_type").is_none_or(|action| action == "InstanceStart");
    let wanted = if starts { Phase::BeforeBoot } else { Phase::AfterBoot };
    if wanted != phase {
        return Err(format!("{path} is not supported {phase:?}"));
    }
    Ok(body)
}

/// What stands for `{id}` if a path fits a pattern; empty where the pattern has none.
fn id_of<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    match pattern.strip_suffix("{id}") {
        Some(prefix) => path.strip_prefix(prefix).filter(|id| !id.is_empty() && !id.contains('/')),
        None => (pattern == path).then_some(""),
    }
}

fn check_members(members: &[Member], body: &Value, id: &str) -> Result<(), String> {
    let object = body.as_object().ok_or("an object was expected")?;
    for name in object.keys() {
        if !members.iter().any(|member| member.name == name) {
            return Err(format!("unknown member {name}"));
        }
    }
    for member in members {
        match object.get(member.name) {
            Some(value) => member.kind.check(value, id).map_err(|why| format!("{}: {why}", member.name))?,
            None if member.required => return Err(format!("missing member {}", member.name)),
            None => {}
        }
    }
    Ok(())
}

impl Kind {
    fn check(&self, value: &Value, id: &str) -> Result<(), String> {
        let clean = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let fits = match self {
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Number { least, most } => {
                value.as_u64().is_some_and(|number| (*least..=*most).contains(&number))
            }
            Self::OneOf(known) => value.as_str().is_some_and(|text| known.contains(&text)),
            Self::IdOfPath => value.as_str().is_some_and(|text| text == id && clean(text)),
            Self::Object(members) => return check_members(members, value, id),
        };
        if fits { Ok(()) } else { Err(format!("{value} is not allowed: {self:?}")) }
    }
}
