//! The code of a scripted machine.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::talk::Loop;

/// Runs in a machine in the place of a loop; returns its exit code.
pub(super) type MachineScript = Arc<dyn Fn(Loop) -> BoxFuture<'static, i32> + Send + Sync>;
