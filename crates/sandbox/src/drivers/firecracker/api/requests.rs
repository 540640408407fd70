//! Requests to Firecracker: one type for each body of its published API that the driver uses, and its path.
//!
//! Unused members are left out rather than sent empty, because Firecracker rejects unknown members and older
//! versions know fewer.

use serde::Serialize;

/// A request to the API. All requests are `PUT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(in super::super) enum ApiRequest {
    /// Sets processors and memory.
    MachineConfig(VmConfig),
    /// Kernel, initrd and kernel arguments.
    BootSource(BootSource),
    /// A disk of the machine.
    Drive(Drive),
    /// The socket device, the machine's only way out.
    Vsock(Vsock),
    /// Limit on writes to the console.
    Serial(Serial),
    /// A source of random numbers.
    Entropy(Entropy),
    /// An action, such as booting.
    Action(VmAction),
}

impl ApiRequest {
    /// Returns the path of the request.
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
    /// Number of virtual processors, 1 to 32.
    pub(in super::super) vcpu_count: u8,
    /// Memory in MiB, more than 0.
    pub(in super::super) mem_size_mib: u64,
    /// True if processors appear as threads of fewer cores. Always false, since siblings could watch each
    /// other.
    pub(in super::super) smt: bool,
}

/// The boot source. Paths are inside the jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct BootSource {
    pub(in super::super) kernel_image_path: String,
    /// Path of the first root file system, which holds the guest.
    pub(in super::super) initrd_path: String,
    pub(in super::super) boot_args: String,
}

/// A disk of the machine. The order of requests is the order of disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Drive {
    pub(in super::super) drive_id: String,
    /// Path in the jail of the file behind the disk.
    pub(in super::super) path_on_host: String,
    /// True for the disk that comes first; at most one.
    pub(in super::super) is_root_device: bool,
    /// True if the guest can't write.
    pub(in super::super) is_read_only: bool,
    /// Effect of a flush by the guest.
    pub(in super::super) cache_type: CacheType,
    /// Limit on bytes and operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) rate_limiter: Option<RateLimiter>,
}

/// Effect of a flush by the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in super::super) enum CacheType {
    /// A flush does nothing; right for a disk that is never written.
    Unsafe,
    /// A flush returns when the host's disk has the data.
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
    /// Milliseconds in which an empty bucket gets full.
    pub(in super::super) refill_time: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Vsock {
    /// The guest's address, 3 or more. It has no meaning outside: each machine has a device of its own.
    pub(in super::super) guest_cid: u32,
    /// Socket on which Firecracker listens. A connection of the guest to port N goes to the socket
    /// `<uds_path>_N`.
    pub(in super::super) uds_path: String,
}

/// The serial console, which stays on Firecracker's standard output. Known since 1.14, its limit since 1.16.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Serial {
    /// Limit in bytes; Firecracker drops output beyond it.
    pub(in super::super) rate_limiter: TokenBucket,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Entropy {
    /// Limit on bytes and operations.
    pub(in super::super) rate_limiter: RateLimiter,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct VmAction {
    pub(in super::super) action_type: ActionType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in super::super) enum ActionType {
    /// Boots the machine. Allowed once.
    InstanceStart,
    /// Presses Ctrl-Alt-Del, upon which the guest shuts down in order.
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
