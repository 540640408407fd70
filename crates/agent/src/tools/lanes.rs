//! Which calls of one answer may run at the same time: those that do not touch the same thing.
//!
//! Calls keep their order wherever one might see what another does: a command after a file that is written waits for it.

use sandyard_protocol::ToolCall;

use super::find;

/// What a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallLane {
    /// Reads files.
    ReadsFiles,
    /// Writes the file at this path.
    WritesFile(String),
    /// Runs commands, which may touch every file.
    RunsCommands,
    /// Runs code in the kernel of this name.
    Kernel(String),
    /// Acts on the desktop.
    Desktop,
    /// Must not run beside any other call.
    Alone,
}

impl CallLane {
    /// Whether two calls may run at the same time.
    pub(crate) fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::ReadsFiles, Self::ReadsFiles) | (Self::RunsCommands, Self::RunsCommands) => true,
            (Self::WritesFile(one), Self::WritesFile(other)) | (Self::Kernel(one), Self::Kernel(other)) => {
                one != other
            }
            (Self::RunsCommands, Self::Kernel(_)) | (Self::Kernel(_), Self::RunsCommands) => true,
            _ => false,
        }
    }
}

/// How many of these calls, counted from the first, may run at the same time; at most `most`. An unknown tool runs alone.
pub(crate) fn together<'a>(calls: impl Iterator<Item = &'a ToolCall>, most: usize) -> usize {
    let mut lanes: Vec<CallLane> = Vec::new();
    for call in calls.take(most) {
        let lane = find(&call.name).map_or(CallLane::Alone, |tool| (tool.lane)(&call.arguments));
        if !lanes.iter().all(|earlier| earlier.goes_with(&lane)) {
            break;
        }
        lanes.push(lane);
    }
    lanes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: String::new(), name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn what_touches_the_same_thing_keeps_its_order() {
        let write =
            |path: &str| call("files", &format!(r#"{{"action":"write","path":"{path}","content":""}}"#));
        let (view, shell) =
            (call("files", r#"{"action":"view","path":"a"}"#), call("shell", r#"{"command":"ls"}"#));
        let code = |language: &str| call("code", &format!(r#"{{"language":"{language}","code":"1"}}"#));
        let count = |calls: &[ToolCall]| together(calls.iter(), 8);
        assert_eq!(count(&[write("a"), write("b"), write("/workspace/a")]), 2);
        assert_eq!(count(&[write("a"), shell.clone()]), 1);
        assert_eq!(count(&[shell.clone(), shell.clone(), code("python")]), 3);
        assert_eq!(count(&[code("python"), code("python")]), 1);
        assert_eq!(count(&[view.clone(), view.clone(), write("c")]), 2);
        assert_eq!(count(&[call("ask", "{}"), shell]), 1);
        assert_eq!(together([view.clone(), view.clone(), view].iter(), 2), 2);
    }
}
