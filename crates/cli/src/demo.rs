//! The shipped recording: answers of an agent, written by hand, for the todo app that `sandyard demo` builds.
//!
//! Only the answers are recorded. The sandbox, the files, npm through the egress gateway, the build, the browser and its test are
//! real, and the job ends only if the test in the browser passes: `finish` beside a failed call does not end a job. The
//! recording is assembled for the prompt of this version, because a replay compares the two.

use sandyard_protocol::{ModelEvent, ModelUsage, StopReason, ToolCall};
use sandyard_server::config::recording_of;
use serde_json::{Value, json};

/// Name of the recording; as a model it is `replay:demo`.
pub(crate) const NAME: &str = "demo";
/// The task that the recording solves.
pub(crate) const TASK: &str = "Build me a todo app in React";
/// The model that the recording names.
const SPEAKER: &str = "sandyard/demo";

/// The files of the app, as the agent writes them.
const FILES: [(&str, &str); 11] = [
    ("package.json", include_str!("../assets/demo/app/package.json")),
    ("vite.config.js", include_str!("../assets/demo/app/vite.config.js")),
    ("index.html", include_str!("../assets/demo/app/index.html")),
    ("src/main.jsx", include_str!("../assets/demo/app/src/main.jsx")),
    ("src/App.jsx", include_str!("../assets/demo/app/src/App.jsx")),
    ("src/todos.js", include_str!("../assets/demo/app/src/todos.js")),
    ("src/storage.js", include_str!("../assets/demo/app/src/storage.js")),
    ("src/styles.css", include_str!("../assets/demo/app/src/styles.css")),
    ("tests/todos.test.js", include_str!("../assets/demo/app/tests/todos.test.js")),
    ("tests/smoke.mjs", include_str!("../assets/demo/app/tests/smoke.mjs")),
    ("README.md", include_str!("../assets/demo/app/README.md")),
];

const STEPS: [&str; 5] = [
    "Look at the machine",
    "Write the app and its tests",
    "Install packages, test and build",
    "Try it in Chromium on the desktop",
    "Check the page and hand over",
];

/// Starts a window without tabs that a test can inspect and that contacts no update host.
const BROWSER: &str = "chromium --app=http://127.0.0.1:4173 --start-maximized --remote-debugging-port=9222 \
--user-data-dir=/tmp/browser --disable-sync --disable-extensions \
--disable-features=AutofillServerCommunication,OptimizationHints,OptimizationGuideModelDownloading,MediaRouter";

/// Waits for the number of todos in the title: a page that is open but not yet running would miss the keys.
const WAIT_FOR_PAGE: &str = "for i in $(seq 240); do \
curl --silent http://127.0.0.1:9222/json | grep --quiet 'Todo: 0 things' && echo the browser shows the page && exit 0; \
sleep 0.5; done; echo the browser did not come up; exit 1";

const SUMMARY: &str = include_str!("../assets/demo/summary.md");

/// An answer: its text and its tool calls.
struct RecordedTurn {
    says: &'static str,
    calls: Vec<(&'static str, Value)>,
}

/// Returns the whole recording in the form of its file.
pub(crate) fn recording() -> Result<String, serde_json::Error> {
    let events = (1..).zip(turns()).map(|(number, turn)| events(number, turn)).collect();
    recording_of(SPEAKER, sandyard_agent::SYSTEM, &sandyard_agent::specs(), events)
}

fn turns() -> Vec<RecordedTurn> {
    let shell = |command: &str, wait_s: u64| ("shell", json!({ "command": command, "wait_s": wait_s }));
    let write = |(path, content)| ("files", json!({ "action": "write", "path": path, "content": content }));
    vec![
        RecordedTurn {
            says: "(These words are a recording; what they set in motion is real.) I'll build a small todo app with Vite and React, test it, and try it in a browser.",
            calls: vec![plan(0), shell("node --version && npm --version && chromium --version && ls -A", 60)],
        },
        RecordedTurn {
            says: "An empty workspace, with all that is needed. I write the app: the list's logic apart from the page, so that it can be tested without a browser.",
            calls: [vec![plan(1)], FILES.into_iter().map(write).collect()].concat(),
        },
        RecordedTurn {
            says: "Now the packages, through the egress gateway.",
            calls: vec![plan(2), shell("npm install --no-fund --no-audit", 900)],
        },
        RecordedTurn {
            says: "Tests first, then the build.",
            calls: vec![shell("npm test && npm run build && ls -l dist", 300)],
        },
        RecordedTurn {
            says: "It builds. I serve the finished page and open it in Chromium on the desktop.",
            calls: vec![
                plan(3),
                shell("npm run preview -- --host 127.0.0.1 --port 4173 --strictPort", 5),
                shell(BROWSER, 5),
                shell(WAIT_FOR_PAGE, 150),
            ],
        },
        RecordedTurn {
            says: "I use it as a person would: type two todos.",
            calls: vec![(
                "gui",
                json!({ "actions": [
                    { "type": "wait_for_stable", "quiet_ms": 1500, "timeout_ms": 30000 },
                    { "type": "click", "x": 600, "y": 200 },
                    { "type": "type", "text": "Water the plants" }, { "type": "key", "keys": "Return" },
                    { "type": "type", "text": "Write a test" }, { "type": "key", "keys": "Return" },
                ] }),
            )],
        },
        RecordedTurn {
            says: "Both are listed. A last check of what is really on the page, with a picture of it; if it passes, this is done.",
            calls: vec![
                plan(4),
                shell(
                    "node tests/smoke.mjs screenshot.png && test -s dist/index.html && rm -rf node_modules && ls",
                    60,
                ),
                ("finish", json!({ "summary": SUMMARY })),
            ],
        },
    ]
}

/// Returns the plan during step `n`.
fn plan(doing: usize) -> (&'static str, Value) {
    let state = |place: usize| match place.cmp(&doing) {
        std::cmp::Ordering::Less => "done",
        std::cmp::Ordering::Equal => "doing",
        std::cmp::Ordering::Greater => "open",
    };
    let item = |(place, text): (usize, &&str)| json!({ "text": text, "state": state(place) });
    ("plan", json!({ "items": STEPS.iter().enumerate().map(item).collect::<Vec<_>>() }))
}

fn events(number: usize, turn: RecordedTurn) -> Vec<ModelEvent> {
    let mut events = vec![ModelEvent::Text { text: turn.says.to_owned() }];
    events.extend(turn.calls.into_iter().enumerate().map(|(place, (name, arguments))| {
        ModelEvent::Call(ToolCall {
            id: format!("demo-{number}-{place}"),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        })
    }));
    events.push(ModelEvent::Done { stop: StopReason::Calls, usage: ModelUsage::default() });
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recording_is_whole_and_says_that_it_is_one() {
        let recording = recording().unwrap();
        assert_eq!(recording.lines().count(), 1 + turns().len());
        assert!(recording.contains("These words are a recording"));
        assert!(SUMMARY.contains("recording"));
        for (path, content) in FILES {
            assert!(content.ends_with('\n'), "{path}");
        }
    }

    #[test]
    fn the_end_stands_beside_a_check() {
        let turns = turns();
        let last: Vec<&str> = turns.last().unwrap().calls.iter().map(|(name, _)| *name).collect();
        assert_eq!(last, ["plan", "shell", "finish"]);
    }
}
