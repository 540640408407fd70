//! Which calls of one answer may run at the same time: those that do not touch the same thing.
//!
//! Calls keep their order wherever one might see what another does: a command after a file that is written waits for it.

use sandyard_protocol::ToolCall;
use serde_json::Value;

use super::files::{self, Action};

/// What a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Looks at files.
    Looks,
    /// Changes one file.
    Changes(String),
    /// Runs commands, which may touch every file.
    Runs,
    /// Runs code in a kernel.
    Kernel(String),
    /// Acts on the desktop.
    Desktop,
    /// Is about the job itself.
    Alone,
}

impl Lane {
    /// The lane of a call. What can't be read is refused by its tool, whenever that is.
    pub(crate) fn of(call: &ToolCall) -> Self {
        let member = |name: &str| {
            let arguments = serde_json::from_str::<Value>(&call.arguments).ok()?;
            arguments.get(name)?.as_str().map(str::to_owned)
        };
        match call.name.as_str() {
            "shell" => Self::Runs,
            "code" => Self::Kernel(member("kernel").or_else(|| member("language")).unwrap_or_default()),
            "gui" => Self::Desktop,
            "files" => match files::read(&call.arguments) {
                Ok(arguments) if matches!(arguments.action, Action::Write | Action::Edit) => {
                    Self::Changes(arguments.path)
                }
                _ => Self::Looks,
            },
            _ => Self::Alone,
        }
    }

    /// Whether two calls may run at the same time.
    pub(crate) fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Looks, Self::Looks) | (Self::Runs, Self::Runs) => true,
            (Self::Changes(one), Self::Changes(other)) | (Self::Kernel(one), Self::Kernel(other)) => {
                one != other
            }
            (Self::Runs, Self::Kernel(_)) | (Self::Kernel(_), Self::Runs) => true,
            _ => false,
        }
    }
}

/// How many of these calls, from the first on, may run at the same time.
pub(crate) fn together<'a>(calls: impl Iterator<Item = &'a ToolCall>, most: usize) -> usize {
    let mut lanes: Vec<Lane> = Vec::new();
    for call in calls.take(most) {
        let lane = Lane::of(call);
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
