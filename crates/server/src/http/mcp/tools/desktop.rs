//! Tools on the desktop of a live sandbox: actions and pictures.

use sandyard_api::{ApiError, GuiView, ScreenshotView};
use serde_json::json;

use super::super::answer::{ToolAnswer, readable};
use super::super::arguments::Arguments;
use super::super::call::{ApiCall, CallVerb};
use super::{McpToolContext, ToolEffect, ToolEntry, job_id, output_schema};

pub(super) const ENTRIES: &[ToolEntry] = &[
    ToolEntry {
        name: "gui",
        title: "Act on the desktop",
        description: "Does a list of actions on the desktop of a live sandbox, in order, up to the first that fails, and answers with a \
            line for each and the pictures that were taken. The desktop starts with its first use; programs are opened with \
            run_shell (`chromium http://localhost:5173 &`). End the list with `screenshot` to see what came of it. Refused \
            while a person controls the desktop; `wait_s` waits for them.",
        effect: ToolEffect::Changes,
        properties: || {
            json!({
                "job_id": job_id(),
                "actions": {
                    "type": "array",
                    "description": "What to do. Coordinates are pixels of the screen, from its upper left corner. By `type`: click and double_click (x, y, button, hold), \
                        move (x, y), drag (x, y, to_x, to_y, button), scroll (x, y, dx, dy in notches), type (text), key (keys: `ctrl+shift+t`, \
                        several chords separated by spaces), wait (ms), wait_for_stable (quiet_ms, timeout_ms), screenshot (window), \
                        windows (lists them), xdotool (script)",
                    "items": {
                        "type": "object",
                        "properties": {"type": {"type": "string", "enum": ["click", "double_click", "move", "drag", "scroll", "type", "key", "wait", "wait_for_stable", "screenshot", "windows", "xdotool"]}},
                        "required": ["type"],
                    },
                },
                "wait_s": {"type": "integer", "minimum": 0, "description": "How long a person who controls the desktop is waited for"},
            })
        },
        required: &["job_id", "actions"],
        output: output_schema::<GuiView>,
        run: |context, arguments| Box::pin(act(context, arguments)),
    },
    ToolEntry {
        name: "screenshot",
        title: "Screenshot",
        description: "Takes a picture of the desktop of a live sandbox, or shows the last one of an ended job's desktop.",
        effect: ToolEffect::Reads,
        properties: || {
            json!({
                "job_id": job_id(),
                "window": {"type": "integer", "minimum": 0, "description": "One window, as the gui action `windows` names it; the whole screen if not given"},
            })
        },
        required: &["job_id"],
        output: output_schema::<ScreenshotView>,
        run: |context, arguments| Box::pin(screenshot(context, arguments)),
    },
];

async fn act(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let call = ApiCall::new(CallVerb::Post, format!("/jobs/{id}/gui")).json(&arguments.rest());
    let mut view: GuiView = context.send(call).await?.view()?;
    let mut answer = ToolAnswer::default();
    for (index, result) in view.results.iter().enumerate() {
        let mut line =
            format!("{}. {}: {}", index + 1, result.action, result.error.as_deref().unwrap_or("done"));
        if result.stable == Some(false) {
            line.push_str(", but the screen did not come to rest");
        }
        if let Some(output) = result.output.as_deref().filter(|output| !output.is_empty()) {
            line.push_str(&format!("\n{}", readable(output)));
        }
        for window in result.windows.iter().flatten() {
            line.push_str(&format!(
                "\nwindow {} at {},{} size {}x{}{}: {}",
                window.id,
                window.x,
                window.y,
                window.width,
                window.height,
                if window.active { " (active)" } else { "" },
                window.title
            ));
        }
        answer.text(line);
        if let Some(image) = &result.image {
            answer.picture(&image.mime, &image.base64);
        }
    }
    if !view.completed {
        answer.text("[not all actions were done: nothing after the one that failed was tried]");
    }
    // Shown above, within bounds.
    view.results.iter_mut().for_each(|result| result.image = None);
    Ok(answer.with(&view))
}

async fn screenshot(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let window = arguments.whole("window", 0..=u64::from(u32::MAX))?;
    let query = window.map(|window| format!("?window={window}")).unwrap_or_default();
    let reply = context
        .send(ApiCall::new(CallVerb::Get, format!("/jobs/{id}/screenshot.png{query}")))
        .await?
        .accepted()?;
    let bytes = reply.bytes();
    let (width, height) = png_size(&bytes);
    let mut answer = ToolAnswer::default();
    answer.picture_bytes("image/png", &bytes);
    Ok(answer.with(&ScreenshotView { media_type: "image/png".to_owned(), width, height }))
}

/// Width and height of a PNG: its first chunk begins with them, after 16 bytes. Nothing else is read from the picture.
fn png_size(bytes: &[u8]) -> (u32, u32) {
    let number = |at: usize| {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map_or(0, u32::from_be_bytes)
    };
    (number(16), number(20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_picture_is_read_and_a_torn_one_has_none() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x05\0\0\0\x03\x20";
        assert_eq!(png_size(png), (1280, 800));
        assert_eq!(png_size(&png[..18]), (0, 0));
    }
}
