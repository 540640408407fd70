//! The tools that the model can call. Each tool is one file: its description for the model, its arguments, its run function and
//! its results.
//!
//! `TOOLS` is the table. An entry carries everything that the loop needs to know about a tool, so a new tool is one file and
//! one line of the table. The loop does not branch on names; only `stuck` knows how a call waits for a command.

mod ask;
mod code;
mod files;
mod finish;
mod gui;
mod lanes;
mod output;
mod pack;
mod plan;
mod recall;
mod shell;
mod tool;

use sandyard_protocol::{ToolCall, ToolSpec};

pub(crate) use self::files::write_file;
pub(crate) use self::recall::cited;

use crate::tools::lanes::CallLane;
pub(crate) use crate::tools::tool::{
    JournalCall, JournalRun, JournalStep, Tool, ToolContext, ToolOutcome, ToolRun,
};

/// All tools, in the order in which the model reads about them.
static TOOLS: [Tool; 9] = [
    shell::TOOL,
    code::TOOL,
    files::TOOL,
    gui::TOOL,
    plan::TOOL,
    recall::TOOL,
    pack::TOOL,
    ask::TOOL,
    finish::TOOL,
];

fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.form.tool == name)
}

/// How the named tool runs; `None` if there is no such tool.
pub(crate) fn run_of(name: &str) -> Option<ToolRun> {
    find(name).map(|tool| tool.run)
}

/// The tools as the model reads about them.
pub fn specs() -> Vec<ToolSpec> {
    TOOLS
        .iter()
        .map(|tool| ToolSpec {
            name: tool.form.tool.to_owned(),
            description: tool.description.trim().to_owned(),
            parameters: (tool.parameters)(),
        })
        .collect()
}

/// The result of a call whose tool does not exist.
pub(crate) fn unknown(name: &str) -> ToolOutcome {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.form.tool).collect();
    ToolOutcome::failed(format!("There is no tool `{name}`. There are: {}.", names.join(", ")))
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
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_tool_says_what_it_takes_and_its_example_is_right() {
        for (tool, spec) in TOOLS.iter().zip(specs()) {
            let properties = spec.parameters["properties"].as_object().expect("an object");
            for (member, _) in tool.form.members {
                assert!(properties.contains_key(*member), "{}: {member}", spec.name);
            }
            assert_eq!(properties.len(), tool.form.members.len(), "{}", spec.name);
            let example: Value = serde_json::from_str(tool.form.example).expect("JSON");
            for member in example.as_object().expect("an object").keys() {
                assert!(properties.contains_key(member), "{}: {member}", spec.name);
            }
            assert!(spec.description.len() > 100, "{}", spec.name);
            assert!(find(&spec.name).is_some());
        }
        assert!(find("shel").is_none());
    }

    #[test]
    fn calls_that_use_the_journal_run_alone() {
        for tool in &TOOLS {
            let is_alone = (tool.lane)("{}") == CallLane::Alone;
            assert_eq!(is_alone, matches!(tool.run, ToolRun::Journal { .. }), "{}", tool.form.tool);
        }
    }

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
