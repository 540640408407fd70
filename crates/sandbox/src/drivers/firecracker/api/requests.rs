//! Requests to Firecracker: one type for each body of its published API that the driver uses, and its path.
//!
//! Members that we never set are left out rather than sent empty, because Firecracker rejects unknown members and older
//! versions know less.

use serde::Serialize;

/// One request, all of which are `PUT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(in super::super) enum ApiRequest {
    /// Processors and memory.
    MachineConfig(VmConfig),
    /// Kernel, initrd and kernel arguments.
    BootSource(BootSource),
    /// Block device.
    Drive(Drive),
    /// The only way out.
    Vsock(Vsock),
    /// How fast the console may be written.
    Serial(Serial),
    /// A source of random numbers.
    Entropy(Entropy),
    /// Something to be done.
    Action(VmAction),
}

impl ApiRequest {
    /// The path it is sent to.
    pub(in super::super) fn path(&self) -> String {
        match self {
            Self::MachineConfig(_) => "/machine-config".to_owned(),
            Self::BootSource(_) => "/boot-source".to_owned(),
            Self::Drive(drive) => format!("/drives/{}", drive.drive_id),
            Self::Vsock(_) => "/vsock".to_owned(),
            Self::Serial(_) => "/serial".to_owned(),
            Self::Entropy(_) => "/entropy".to_owned(),
            Self::Action(_) => "/actions".to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct VmConfig {
    /// 1 to 32.
    pub(in super::super) vcpu_count: u8,
    /// More than 0.
    pub(in super::super) mem_size_mib: u64,
    /// Whether processors are shown as threads of fewer cores: never, since siblings could watch each other.
    pub(in super::super) smt: bool,
}

/// The boot source. Paths are inside the jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct BootSource {
    pub(in super::super) kernel_image_path: String,
    /// The first root, with the guest in it.
    pub(in super::super) initrd_path: String,
    pub(in super::super) boot_args: String,
}

/// A disk of the machine. The order of requests is the order of disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Drive {
    pub(in super::super) drive_id: String,
    /// The file behind it; a path in the jail.
    pub(in super::super) path_on_host: String,
    /// At most one, which comes first.
    pub(in super::super) is_root_device: bool,
    /// Whether the guest can write.
    pub(in super::super) is_read_only: bool,
    /// Effect of a flush by the guest.
    pub(in super::super) cache_type: CacheType,
    /// How fast it may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) rate_limiter: Option<RateLimiter>,
}

/// Effect of a flush by the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in super::super) enum CacheType {
    /// Nothing; right where nothing is written.
    Unsafe,
    /// The host's disk has it afterwards.
    Writeback,
}

/// Bytes and operations, each with a bucket of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct RateLimiter {
    pub(in super::super) bandwidth: TokenBucket,
    pub(in super::super) ops: TokenBucket,
}

/// A bucket that fills up at a steady rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct TokenBucket {
    pub(in super::super) size: u64,
    /// Milliseconds in which an empty one gets full.
    pub(in super::super) refill_time: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Vsock {
    /// The guest's address, 3 or more. Of no meaning outside: each machine has a device of its own.
    pub(in super::super) guest_cid: u32,
    /// Where Firecracker listens; a connection of the guest to port N goes to the socket `<uds_path>_N`.
    pub(in super::super) uds_path: String,
}

/// The serial console, which stays on Firecracker's standard output. Known since 1.14, its limit since 1.16.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Serial {
    /// Tokens are bytes; what is written beyond them is dropped.
    pub(in super::super) rate_limiter: TokenBucket,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Entropy {
    /// How fast it may be used.
    pub(in super::super) rate_limiter: RateLimiter,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct VmAction {
    pub(in super::super) action_type: ActionType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in super::super) enum ActionType {
    /// Boots the machine; once.
    InstanceStart,
    /// Presses the three keys, upon which the guest leaves in an orderly way.
    SendCtrlAltDel,
}

impl From<ActionType> for ApiRequest {
    fn from(action_type: ActionType) -> Self {
        Self::Action(VmAction { action_type })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_names_of_the_published_api_and_nothing_empty() {
        let drive = ApiRequest::Drive(Drive {
            drive_id: "root".into(),
            path_on_host: "/root.ext4".into(),
            is_root_device: true,
            is_read_only: true,
            cache_type: CacheType::Unsafe,
            rate_limiter: None,
        });
        assert_eq!(drive.path(), "/drives/root");
        let expected = serde_json::json!({
            "drive_id": "root", "path_on_host": "/root.ext4", "is_root_device": true, "is_read_only": true,
            "cache_type": "Unsafe",
        });
        assert_eq!(serde_json::to_value(&drive).unwrap(), expected);
        let start = ApiRequest::from(ActionType::InstanceStart);
        assert_eq!(serde_json::to_string(&start).unwrap(), r#"{"action_type":"InstanceStart"}"#);
        let serial = ApiRequest::Serial(Serial { rate_limiter: TokenBucket { size: 8, refill_time: 9 } });
        assert_eq!(serde_json::to_string(&serial).unwrap(), r#"{"rate_limiter":{"size":8,"refill_time":9}}"#);
    }
}
