//! Writes whole files and replaces exact texts in files.

use sandyard_protocol::limits::DATA_BYTES;
use sandyard_protocol::{Edit, GuestErrorCode, Reply, Request, TextOrigin};

use super::super::ToolOutcome;
use super::{mismatch, view};
use crate::keeper::{KeeperClient, ToolError};
use crate::shape;

/// Lines that a result shows before and after an edit.
const CONTEXT_LINES: u64 = 4;

pub(super) async fn write(
    keeper: &KeeperClient,
    path: &str,
    content: String,
) -> Result<ToolOutcome, ToolError> {
    let existed =
        matches!(keeper.ask(Request::Stat { path: path.to_owned() }).await, Ok((Reply::Stat(_), _)));
    let request = Request::Write { path: path.to_owned(), size: content.len() as u64, mode: None };
    // Keeper answers after it has received the content.
    let mut stream = keeper.send(request).await?;
    for part in content.as_bytes().chunks(DATA_BYTES) {
        if stream.send_data(part).await.is_err() {
            // Keeper has stopped reading; its reply says why.
            break;
        }
    }
    let _ = stream.finish().await;
    match stream.receive_message().await? {
        Reply::Stat(_) => {
            let what = if existed { "Replaced" } else { "Wrote" };
            let lines = content.lines().count();
            let text = format!("{what} {path}: {lines} lines, {}.", shape::size(content.len() as u64));
            let size = content.len() as u64;
            let outcome = ToolOutcome { files: vec![path.to_owned()], ..ToolOutcome::text(text) };
            Ok(outcome.keeping(TextOrigin::File, path, view::whole(content.into_bytes(), size)))
        }
        Reply::Failed(error) => Err(ToolError::Refused(error)),
        _ => Err(ToolError::Unexpected),
    }
}

pub(super) async fn edit(
    keeper: &KeeperClient,
    path: &str,
    edits: Vec<Edit>,
) -> Result<ToolOutcome, ToolError> {
    match keeper.ask(Request::Edit { path: path.to_owned(), edits: edits.clone() }).await {
        Ok((Reply::Stat(_), _)) => {
            let (shown, version) = match view::read(keeper, path).await {
                Ok((bytes, size)) => {
                    (around(&String::from_utf8_lossy(&bytes), &edits), view::whole(bytes, size))
                }
                Err(_) => (String::new(), None),
            };
            let outcome = ToolOutcome {
                files: vec![path.to_owned()],
                ..ToolOutcome::text(format!("Edited {path}.\n{shown}"))
            };
            Ok(outcome.keeping(TextOrigin::File, path, version))
        }
        Ok(_) => Err(ToolError::Unexpected),
        Err(ToolError::Refused(error)) if error.code == GuestErrorCode::EditMismatch => {
            let (bytes, _) = view::read(keeper, path).await?;
            Ok(ToolOutcome::failed(mismatch::explain(path, &String::from_utf8_lossy(&bytes), &edits)))
        }
        Err(error) => Err(error),
    }
}

/// The lines around the last edit, after the change.
fn around(text: &str, edits: &[Edit]) -> String {
    let Some(edit) = edits.last() else { return String::new() };
    let Some(place) = text.find(&edit.new).filter(|_| !edit.new.is_empty()) else { return String::new() };
    let first = 1 + text[..place].matches('\n').count() as u64;
    let last = first + edit.new.matches('\n').count() as u64;
    view::lines(text, first.saturating_sub(CONTEXT_LINES).max(1), last + CONTEXT_LINES).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_shown_with_the_lines_around_it() {
        let text: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let edit = Edit { old: "x".into(), new: "line 10".into() };
        let shown = around(&text, &[edit]);
        assert!(shown.starts_with("6\tline 6\n") && shown.ends_with("14\tline 14\n"), "{shown}");
        assert_eq!(around(&text, &[Edit { old: "x".into(), new: String::new() }]), "");
    }
}
