//! The code of a scripted machine.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::talk::Loop;

/// Code that runs in a machine in the place of a loop. Returns its exit code.
pub(super) type MachineScript = Arc<dyn Fn(Loop) -> BoxFuture<'static, i32> + Send + Sync>;
