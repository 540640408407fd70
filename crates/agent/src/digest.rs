//! `/workspace/context.txt`: what happened so far, for people who look into the workspace.
//!
//! Written anew whenever results are put away. It is never read back: the journal is the truth, and the job may do with the file what
//! it likes.

use crate::conversation::Conversation;
use crate::keeper::KeeperClient;
use crate::tools;

/// The file, relative to the workspace.
const DIGEST_PATH: &str = "context.txt";

/// Writes the digest. A workspace that can't be written is no reason to stop.
pub(crate) async fn write(keeper: &KeeperClient, conversation: &Conversation) {
    let text = format!("{HEAD}{}", conversation.digest());
    let _ = tools::write_file(keeper, DIGEST_PATH, text).await;
}

const HEAD: &str = "This file is written by the machine as the job goes on, and never read by it. `sandyard context recall JOB QUERY`\nfinds everything in full; the numbers are entries of the journal.\n\n";
