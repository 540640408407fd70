//! `gui`: acts on the desktop. Every call returns a picture of the screen.

use base64::Engine as _;
use sandyard_protocol::limits::{GUI_ACTIONS, SCREENSHOT_BYTES};
use sandyard_protocol::{GuiAction, GuiResult, ModelPart, Reply, Request, WindowInfo};
use serde::Deserialize;
use serde_json::{Value, json};

use super::code::{PICTURE_BYTES, take};
use super::lanes::CallLane;
use super::{Tool, ToolContext, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm};
use crate::keeper::{KeeperClient, ToolError};

/// How long a call waits for a person who controls the desktop.
const WAIT_FOR_PERSON_MS: u64 = 60_000;
/// Pictures in one result: the last ones.
const MAX_PICTURES: usize = 3;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Acts on the desktop (1280 × 800 pixels) and looks at it. The actions run in order and stop at the first that fails. At the end you get a picture of the screen, so an empty list just looks.
Coordinates are pixels from the upper left corner of the screen; take them from the newest picture. Start programs with `shell` and a small `wait_s`, for example `chromium --no-first-run http://localhost:5173`.
Actions: {\"type\": \"click\", \"x\", \"y\", \"button\"?: 1-5, \"hold\"?: \"ctrl\"}, double_click (the same), {\"type\": \"move\", \"x\", \"y\"}, {\"type\": \"drag\", \"x\", \"y\", \"to_x\", \"to_y\"}, {\"type\": \"scroll\", \"x\"?, \"y\"?, \"dy\": 3} (down is positive), {\"type\": \"type\", \"text\"}, {\"type\": \"key\", \"keys\": \"ctrl+l\" or \"Return\"}, {\"type\": \"wait\", \"ms\"}, {\"type\": \"wait_for_stable\"}, {\"type\": \"screenshot\", \"window\"?: id}, {\"type\": \"windows\"} (lists them), {\"type\": \"xdotool\", \"script\"}.",
    parameters,
    lane: |_| CallLane::Desktop,
    run: ToolRun::Machine {
        run: |context, arguments| Box::pin(run(context, arguments)),
        after_restart: |_| Box::pin(async { "Some of the actions may have been done: look at the screen.".into() }),
    },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "gui",
    members: &[("actions", &["action", "steps"])],
    example: r#"{"actions": [{"type": "click", "x": 640, "y": 400}, {"type": "type", "text": "hello"}]}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "actions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "type": { "type": "string", "enum": ["click", "double_click", "move", "drag", "scroll", "type", "key", "wait", "wait_for_stable", "screenshot", "windows", "xdotool"] },
                        "x": { "type": "integer" }, "y": { "type": "integer" },
                        "to_x": { "type": "integer" }, "to_y": { "type": "integer" },
                        "dx": { "type": "integer" }, "dy": { "type": "integer" },
                        "button": { "type": "integer" }, "hold": { "type": "string" },
                        "text": { "type": "string" }, "keys": { "type": "string" },
                        "ms": { "type": "integer" }, "window": { "type": "integer" },
                        "script": { "type": "string" },
                    },
                    "required": ["type"],
                },
            },
        },
        "required": ["actions"],
    })
}

#[derive(Debug, Deserialize)]
struct GuiArguments {
    #[serde(default)]
    actions: Vec<GuiAction>,
}

async fn run(context: ToolContext, text: String) -> ToolOutcome {
    let GuiArguments { mut actions } = match arguments::read(&FORM, &text) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    if actions.len() + 2 > GUI_ACTIONS {
        return FORM.refuse(&format!("at most {} actions in one call", GUI_ACTIONS - 2)).into();
    }
    let asked = actions.len();
    look_at_the_end(&mut actions);
    act(&context.keeper, actions, asked).await.unwrap_or_else(ToolOutcome::from)
}

/// Appends a screenshot, after the screen has stopped changing if the actions did something.
fn look_at_the_end(actions: &mut Vec<GuiAction>) {
    if matches!(actions.last(), Some(GuiAction::Screenshot { .. })) {
        return;
    }
    if actions.iter().any(|action| !matches!(action, GuiAction::Windows)) {
        actions.push(GuiAction::WaitForStable { quiet_ms: 300, timeout_ms: 3000 });
    }
    actions.push(GuiAction::Screenshot { window: None });
}

async fn act(keeper: &KeeperClient, actions: Vec<GuiAction>, asked: usize) -> Result<ToolOutcome, ToolError> {
    let all = actions.len();
    let request = Request::Gui { actions, wait_ms: WAIT_FOR_PERSON_MS };
    let (reply, mut stream) = keeper.ask(request).await?;
    if reply != Reply::Done {
        return Err(ToolError::Unexpected);
    }
    let (mut lines, mut pictures) = (Vec::new(), Vec::new());
    let mut failed = false;
    for number in 1..=all {
        let result: GuiResult = stream.receive_message().await?;
        describe(number, &result, &mut lines);
        if let Some(length) = result.png_bytes {
            // Checked before memory is taken for the picture.
            if length > SCREENSHOT_BYTES {
                return Err(ToolError::Unexpected);
            }
            pictures.push(take(&mut stream, length).await?);
        }
        if result.error.is_some() {
            failed = number <= asked;
            break;
        }
    }
    if !failed && asked > 0 {
        lines.insert(0, format!("{asked} done."));
    }
    Ok(outcome(lines, &pictures, failed))
}

fn describe(number: usize, result: &GuiResult, lines: &mut Vec<String>) {
    if let Some(error) = &result.error {
        lines.push(format!("Action {number} failed: {error}. Nothing after it was done."));
    }
    if let Some(output) = result.output.as_deref().filter(|output| !output.trim().is_empty()) {
        lines.push(output.trim_end().to_owned());
    }
    if let Some(windows) = &result.windows {
        lines.push(if windows.is_empty() { "There is no window.".into() } else { list(windows) });
    }
}

fn list(windows: &[WindowInfo]) -> String {
    let line = |window: &WindowInfo| {
        let active = if window.active { ", has the keyboard" } else { "" };
        let WindowInfo { id, title, x, y, width, height, .. } = window;
        format!("window {id} `{title}` at {x},{y}, {width} × {height}{active}")
    };
    windows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn outcome(mut lines: Vec<String>, pictures: &[Vec<u8>], failed: bool) -> ToolOutcome {
    let mut shown = Vec::new();
    for picture in &pictures[pictures.len().saturating_sub(MAX_PICTURES)..] {
        let base64 = base64::prelude::BASE64_STANDARD.encode(picture);
        match base64.len() <= PICTURE_BYTES {
            true => shown.push(ModelPart::Png { base64 }),
            false => lines.push("(A picture that is too large to show: take one of a single window.)".into()),
        }
    }
    if lines.is_empty() {
        lines.push("The screen now:".into());
    }
    let mut parts = vec![ModelPart::Text { text: lines.join("\n") }];
    parts.extend(shown);
    ToolOutcome { parts, failed, ..ToolOutcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_ends_with_a_look() {
        let mut none = Vec::new();
        look_at_the_end(&mut none);
        assert_eq!(none, [GuiAction::Screenshot { window: None }]);
        let mut typed = vec![GuiAction::Type { text: "x".into() }];
        look_at_the_end(&mut typed);
        assert!(matches!(typed[1], GuiAction::WaitForStable { .. }) && typed.len() == 3);
        let mut looked = vec![GuiAction::Screenshot { window: Some(1) }];
        look_at_the_end(&mut looked);
        assert_eq!(looked.len(), 1);
    }
}
