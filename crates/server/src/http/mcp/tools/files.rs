//! Tools on the files of a live sandbox's workspace: read, write, edit, list, search.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandyard_api::{
    ApiError, EntryKind, ErrorCode, FileStatView, JobIdPrefix, ListingView, ReadContent, ReadFileView,
    SearchView, ToolAct, ToolDoneView, workspace_path,
};
use serde_json::json;

use super::super::answer::{MAX_TEXT_BYTES, ToolAnswer, readable};
use super::super::arguments::Arguments;
use super::super::call::{ApiCall, ApiReply, CallVerb};
use super::{McpToolContext, ToolEffect, ToolEntry, job_id, output_schema};

/// Bytes of a file in one call.
const READ_BYTES: std::ops::RangeInclusive<u64> = 1..=1024 * 1024;
/// Most entries of a folder and most hits of a search in one answer: what a model reads, and no more.
const MAX_ENTRIES: usize = 500;
/// Longest picture that is shown.
const PICTURE_BYTES: u64 = 5 * 1024 * 1024;

pub(super) const ENTRIES: &[ToolEntry] = &[
    ToolEntry {
        name: "read_file",
        title: "Read a file",
        description: "Reads a file of a live sandbox's workspace: text as text, a picture (PNG, JPEG, GIF, WebP) as a picture. Of a long file \
            the first 40960 bytes are read; a last line says where to go on. A folder is listed. Files of an ended job are in its \
            download.",
        effect: ToolEffect::Reads,
        properties: || {
            json!({
                "job_id": job_id(),
                "path": {"type": "string", "description": "Relative to /workspace"},
                "offset": {"type": "integer", "minimum": 0, "description": "The byte to begin at; 0 if not given"},
                "max_bytes": {"type": "integer", "minimum": 1, "maximum": 1048576, "description": "How much to read; 40960 if not given"},
            })
        },
        required: &["job_id", "path"],
        output: output_schema::<ReadFileView>,
        run: |context, arguments| Box::pin(read(context, arguments)),
    },
    ToolEntry {
        name: "write_file",
        title: "Write a file",
        description: "Writes a whole file in a live sandbox's workspace, atomically; missing folders are made and an existing file is \
            replaced. To change a part of a file use edit_file.",
        effect: ToolEffect::Changes,
        properties: || {
            json!({
                "job_id": job_id(),
                "path": {"type": "string", "description": "Relative to /workspace"},
                "content": {"type": "string", "description": "The text of the file"},
                "base64": {"type": "string", "description": "Its bytes instead, for what is no text"},
                "mode": {"type": "string", "description": "Permission bits in octal; 644 if not given, 755 for a program"},
            })
        },
        required: &["job_id", "path"],
        output: output_schema::<FileStatView>,
        run: |context, arguments| Box::pin(write(context, arguments)),
    },
    ToolEntry {
        name: "edit_file",
        title: "Edit a file",
        description: "Replaces pieces of a text file in a live sandbox's workspace, all or none, in order. Each `old` must occur exactly once, \
            character for character: take enough lines around it. Nothing is changed if one does not match.",
        effect: ToolEffect::Changes,
        properties: || {
            json!({
                "job_id": job_id(),
                "path": {"type": "string", "description": "Relative to /workspace"},
                "edits": {
                    "type": "array",
                    "description": "What to replace",
                    "items": {
                        "type": "object",
                        "properties": {"old": {"type": "string", "description": "Must occur exactly once"}, "new": {"type": "string", "description": "Takes its place"}},
                        "required": ["old", "new"],
                    },
                },
            })
        },
        required: &["job_id", "path", "edits"],
        output: output_schema::<FileStatView>,
        run: |context, arguments| Box::pin(edit(context, arguments)),
    },
    ToolEntry {
        name: "delete_file",
        title: "Delete a file",
        description: "Deletes a file of a live sandbox's workspace, or a folder with all that is in it if `recursive` is true.",
        effect: ToolEffect::Changes,
        properties: || {
            json!({
                "job_id": job_id(),
                "path": {"type": "string", "description": "Relative to /workspace"},
                "recursive": {"type": "boolean", "description": "Delete a folder that is not empty"},
            })
        },
        required: &["job_id", "path"],
        output: output_schema::<ToolDoneView>,
        run: |context, arguments| Box::pin(delete(context, arguments)),
    },
    ToolEntry {
        name: "list_files",
        title: "List a folder",
        description: "Lists a folder of a live sandbox's workspace: names, kinds and sizes, sorted by name; folders end in `/`.",
        effect: ToolEffect::Reads,
        properties: || {
            json!({
                "job_id": job_id(),
                "path": {"type": "string", "description": "Relative to /workspace; the workspace itself if not given"},
                "after": {"type": "string", "description": "Begin after this name, for the next page"},
            })
        },
        required: &["job_id"],
        output: output_schema::<ListingView>,
        run: |context, arguments| Box::pin(list(context, arguments)),
    },
    ToolEntry {
        name: "search_files",
        title: "Search files",
        description: "Looks for a text, literally, in the names and contents of all files below a folder of a live sandbox's workspace. \
            Answers with `path:line: text` for each hit.",
        effect: ToolEffect::Reads,
        properties: || {
            json!({
                "job_id": job_id(),
                "text": {"type": "string", "description": "What to look for"},
                "path": {"type": "string", "description": "The folder, relative to /workspace; all of it if not given"},
            })
        },
        required: &["job_id", "text"],
        output: output_schema::<SearchView>,
        run: |context, arguments| Box::pin(search(context, arguments)),
    },
];

/// Text within a URL, everything escaped but letters, digits and slashes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                escaped.push(char::from(byte))
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

/// The route of a path. It is checked before it becomes part of an address, because clients of HTTP resolve `..` themselves.
fn route(id: &JobIdPrefix, path: &str) -> Result<String, ApiError> {
    Ok(format!("/jobs/{id}/files/{}", escape(workspace_path(in_workspace(path))?)))
}

/// A path below the workspace. Models like to send the absolute path.
fn in_workspace(path: &str) -> &str {
    match path {
        "/workspace" | "." | "./" => "",
        path => path.strip_prefix("/workspace/").or_else(|| path.strip_prefix("./")).unwrap_or(path),
    }
}

async fn read(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let path = arguments.needed_text("path")?;
    let start = arguments.whole("offset", 0..=u64::from(u32::MAX) << 16)?.unwrap_or(0);
    let most = arguments.whole("max_bytes", READ_BYTES)?.unwrap_or(MAX_TEXT_BYTES as u64);
    let route = route(&id, &path)?;
    let call =
        ApiCall::new(CallVerb::Get, &route).header("range", format!("bytes={start}-{}", start + most - 1));
    let reply = context.send(call).await?;
    let size = size(&reply);
    let mut view = unread(in_workspace(&path), size);
    if reply.status == 416 && start == 0 {
        view.text = Some(String::new());
        return Ok(ToolAnswer::of("[the file is empty]").with(&view));
    }
    let reply = reply.accepted()?;
    if reply.is_json {
        let mut folder: ListingView = reply.view()?;
        let answer = listing(&mut folder);
        let view = ReadFileView { content: ReadContent::Folder, size: None, listing: Some(folder), ..view };
        return Ok(answer.with(&view));
    }
    let bytes = reply.bytes();
    if let Some(mime) = picture_type(&bytes).filter(|_| start == 0 && size <= PICTURE_BYTES) {
        let whole = context.send(ApiCall::new(CallVerb::Get, route)).await?.accepted()?.bytes();
        let mut answer = ToolAnswer::default();
        answer.picture_bytes(mime, &whole);
        view = ReadFileView { content: ReadContent::Picture, media_type: Some(mime.to_owned()), ..view };
        return Ok(answer.with(&view));
    }
    Ok(text_or_binary(view, &bytes, start, size))
}

fn text_or_binary(mut view: ReadFileView, bytes: &[u8], start: u64, size: u64) -> ToolAnswer {
    let Some(TextPiece { text, next }) = piece(bytes, start, size) else {
        view.content = ReadContent::Binary;
        let said = format!(
            "[not text: a file of {size} bytes; look at it with run_shell (`file`, `xxd`), or take it from the download]"
        );
        return ToolAnswer::of(said).with(&view);
    };
    let more = next.map(|next| format!("\n[bytes {start} to {next} of {size}; go on with offset {next}]"));
    (view.text, view.next_offset) = (Some(text.clone()), next);
    ToolAnswer::of(text + &more.unwrap_or_default()).with(&view)
}

/// A file of which nothing but its size is known: taken for text until its bytes say otherwise.
fn unread(path: &str, size: u64) -> ReadFileView {
    ReadFileView {
        path: path.to_owned(),
        content: ReadContent::Text,
        size: Some(size),
        text: None,
        next_offset: None,
        media_type: None,
        listing: None,
    }
}

/// The length of the whole file, by the `Content-Range` of an answer with a part of it.
fn size(reply: &ApiReply) -> u64 {
    let total = reply.range.as_deref().and_then(|range| range.rsplit_once('/'));
    total.and_then(|(_, total)| total.parse().ok()).unwrap_or(0)
}

/// A part of a file as text.
struct TextPiece {
    text: String,
    /// The byte after it, if the file goes on.
    next: Option<u64>,
}

/// A part of a file as text, cut between letters, and where it goes on. `None` if it is not text.
fn piece(bytes: &[u8], start: u64, size: u64) -> Option<TextPiece> {
    let torn = bytes.iter().take(3).take_while(|byte| start > 0 && *byte & 0xc0 == 0x80).count();
    let whole = &bytes[torn..];
    let text = match std::str::from_utf8(whole) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            std::str::from_utf8(&whole[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return None,
    };
    if text.contains('\0') {
        return None;
    }
    let next = start + (torn + text.len()) as u64;
    Some(TextPiece { text: text.to_owned(), next: (next < size).then_some(next) })
}

/// The kind of a picture, by its first bytes.
fn picture_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

async fn write(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let path = arguments.needed_text("path")?;
    let mode = arguments.text("mode")?.map(|mode| format!("?mode={}", escape(&mode))).unwrap_or_default();
    let body = match (arguments.text("content")?, arguments.text("base64")?) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(text)) => STANDARD.decode(text.trim()).map_err(|_| {
            ApiError::new(ErrorCode::InvalidValue, "`base64` is not base64")
                .with_hint("standard alphabet, with padding")
        })?,
        _ => {
            return Err(ApiError::new(
                ErrorCode::MissingMember,
                "give exactly one of `content` and `base64`",
            ));
        }
    };
    let mut call = ApiCall::new(CallVerb::Put, format!("{}{mode}", route(&id, &path)?));
    call.body = body.into();
    let view: FileStatView = context.send(call).await?.view()?;
    Ok(ToolAnswer::of(format!("wrote {} bytes to {}", view.size, view.path)).with(&view))
}

async fn edit(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let path = arguments.needed_text("path")?;
    let call = ApiCall::new(CallVerb::Patch, route(&id, &path)?).json(&arguments.rest());
    let view: FileStatView = context.send(call).await?.view()?;
    Ok(ToolAnswer::of(format!("edited {}, now {} bytes", view.path, view.size)).with(&view))
}

async fn delete(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let path = arguments.needed_text("path")?;
    let query = if arguments.truth("recursive")? { "?recursive=1" } else { "" };
    let call = ApiCall::new(CallVerb::Delete, format!("{}{query}", route(&id, &path)?));
    context.send(call).await?.accepted()?;
    Ok(ToolAnswer::of("deleted")
        .with(&ToolDoneView { done: ToolAct::Deleted, subject: in_workspace(&path).to_owned() }))
}

async fn list(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let path = arguments.text("path")?.unwrap_or_default();
    // Naming where to begin asks for a listing, also where there is a file.
    let after = arguments.text("after")?.map(|name| format!("?after={}", escape(&name))).unwrap_or_default();
    let call =
        ApiCall::new(CallVerb::Get, format!("{}{after}", route(&id, &path)?)).keep(MAX_TEXT_BYTES * 16);
    let reply = context.send(call).await?.accepted()?;
    if !reply.is_json {
        return Err(ApiError::new(ErrorCode::NotADirectory, "this is a file").with_hint("read_file reads it"));
    }
    let mut view: ListingView = reply.view()?;
    Ok(listing(&mut view).with(&view))
}

/// The entries for a model. Those beyond its bound are taken out of the view, too.
fn listing(view: &mut ListingView) -> ToolAnswer {
    if view.entries.is_empty() {
        return ToolAnswer::of("[the folder is empty]");
    }
    if view.entries.len() > MAX_ENTRIES {
        view.entries.truncate(MAX_ENTRIES);
        view.next = view.entries.last().map(|entry| entry.name.clone());
    }
    let lines = view.entries.iter().map(|entry| match (entry.kind, &entry.target) {
        (EntryKind::Directory, _) => format!("{}/", entry.name),
        (EntryKind::File, _) => format!("{}  {} bytes", entry.name, entry.size),
        (EntryKind::Symlink, Some(target)) => format!("{} -> {target}", entry.name),
        (EntryKind::Symlink | EntryKind::Other, _) => format!("{}  (special)", entry.name),
    });
    let mut answer = ToolAnswer::of(readable(&lines.collect::<Vec<_>>().join("\n")));
    if let Some(next) = &view.next {
        answer.text(format!("[there are more: pass after `{next}`]"));
    }
    answer
}

async fn search(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let text = arguments.needed_text("text")?;
    let path = arguments.text("path")?.unwrap_or_default();
    let call = ApiCall::new(CallVerb::Get, format!("{}?search={}", route(&id, &path)?, escape(&text)));
    let mut view: SearchView = context.send(call).await?.view()?;
    if view.hits.is_empty() {
        return Ok(ToolAnswer::of("[nothing found]").with(&view));
    }
    if view.hits.len() > MAX_ENTRIES {
        view.hits.truncate(MAX_ENTRIES);
        view.truncated = true;
    }
    let lines = view.hits.iter().map(|hit| match hit.line {
        0 => hit.path.clone(),
        line => format!("{}:{line}: {}", hit.path, hit.text),
    });
    let mut answer = ToolAnswer::of(readable(&lines.collect::<Vec<_>>().join("\n")));
    if view.truncated {
        answer.text("[there are more hits: look for something rarer, or in one folder]");
    }
    Ok(answer.with(&view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_between_letters_and_says_where_to_go_on() {
        let whole = "aü€z".as_bytes();
        let read = |bytes, start, size| piece(bytes, start, size).map(|piece| (piece.text, piece.next));
        assert_eq!(read(whole, 0, 7), Some(("aü€z".to_owned(), None)));
        assert_eq!(read(&whole[..2], 0, 7), Some(("a".to_owned(), Some(1))));
        assert_eq!(read(&whole[2..], 2, 7), Some(("€z".to_owned(), None)));
        assert_eq!(read(b"\xff\xfe\0", 0, 3), None);
        assert_eq!(read(b"a\0b", 0, 3), None);
    }

    #[test]
    fn paths_are_escaped_and_taken_below_the_workspace() {
        let id = JobIdPrefix::parse(&"a".repeat(26)).unwrap();
        let expected = format!("/jobs/{id}/files/a%20b/%3F%23%25.txt");
        for path in ["a b/?#%.txt", "/workspace/a b/?#%.txt", "./a b/?#%.txt"] {
            assert_eq!(route(&id, path).unwrap(), expected);
        }
        assert_eq!(route(&id, "/workspace").unwrap(), format!("/jobs/{id}/files/"));
        for path in ["..", "../../schedule", "a/../b", "/etc/passwd", "/workspace/../x"] {
            assert_eq!(route(&id, path).unwrap_err().code, ErrorCode::InvalidPath, "{path}");
        }
    }
}
