//! Messages between server and warden. Both ends are the same program, so there is one version of them.

use serde::{Deserialize, Serialize};

use super::faults::CallFault;
use super::places::WorkspaceName;
use crate::driver::{
    Availability, BindSupport, DiskState, FoundSandbox, ImageDigest, Isolation, Limits, Liveness, SandboxId,
    Usage,
};
use crate::image::{ImageFlavour, ImageState};
use sandyard_protocol::Secret;

/// Sandboxes in one packet of a list: 500 ids of 63 bytes take half of it.
pub(super) const LIST_PART: usize = 500;

/// Messages of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ServerMessage {
    /// Make a call. The answer carries the same number.
    Call {
        /// Number that no other call of this server has.
        number: u64,
        call: WardenCall,
    },
    /// Nobody waits for the answer to that call any more.
    Cancel { number: u64 },
}

/// A call of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WardenCall {
    /// A call of the contract of drivers.
    Driver {
        /// Position in the list of drivers.
        driver: usize,
        call: DriverCall,
    },
    /// Remove the workspace of that name, if there is one. Its machine is stopped.
    RemoveWorkspace { name: WorkspaceName },
}

/// A call of the trait `Driver`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum DriverCall {
    Availability,
    PrepareImage { image: ImageDigest },
    Start(Box<StartOrder>),
    Bind { id: SandboxId, limits: Limits, workspace: Option<WorkspaceName> },
    NextLink { id: SandboxId },
    WaitDead { id: SandboxId },
    Stop { id: SandboxId },
    List,
    Find { id: SandboxId },
    DiskState { id: SandboxId },
    Usage { id: SandboxId },
}

/// A specification of a sandbox, without a path.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StartOrder {
    pub(super) id: SandboxId,
    pub(super) image: ImageDigest,
    pub(super) workspace: WorkspaceName,
    pub(super) limits: Limits,
    pub(super) lifetime_s: u64,
    pub(super) secret: Secret,
}

/// Messages of the warden.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WardenMessage {
    /// The first message: the drivers are open.
    Opened {
        drivers: Vec<DriverFacts>,
        /// States of the images now.
        images: Vec<(ImageFlavour, ImageState)>,
    },
    /// The first message: the drivers can't be opened, and the warden ends.
    Refused {
        /// Chain of causes, for people.
        reason: String,
    },
    /// States of the images, after each change.
    Images { states: Vec<(ImageFlavour, ImageState)> },
    /// A call goes on.
    Progress {
        number: u64,
        /// The present step, for people.
        text: String,
    },
    /// Answer to a call.
    Reply { number: u64, reply: CallReply },
}

/// Facts of an open driver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DriverFacts {
    pub(super) name: String,
    pub(super) isolation: Isolation,
    pub(super) boot_time_ms: u64,
    pub(super) binds: BindSupport,
}

/// Answer to a call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CallReply {
    /// The call succeeded and has nothing to tell.
    Done,
    /// A driver's report. Its isolation may name the runtime that the attempt found, and a driver that opened only now has
    /// another boot time than before.
    Availability {
        report: Availability,
        isolation: Isolation,
        boot_time_ms: u64,
    },
    /// The link comes with the packet, as a descriptor.
    Link,
    /// A part of a list.
    Sandboxes {
        found: Vec<FoundSandbox>,
        /// True if another part follows.
        more: bool,
    },
    Found(Option<Liveness>),
    DiskState(DiskState),
    Usage(Usage),
    Failed(CallFault),
}
