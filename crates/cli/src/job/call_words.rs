//! A tool call of an agent in a few words: the command, the path, the first line of code; not its JSON.
//!
//! Events hold at most the first 2,000 bytes of the arguments, so a long text may be cut off in the middle of them.

use serde_json::Value;

/// Arguments that describe a call best, the best first.
const TELLING: [&str; 6] = ["command", "code", "query", "text", "question", "script"];

/// Describes a call by its arguments.
pub(super) fn call_words(tool: &str, arguments: &str) -> String {
    let member = |name: &str| member(arguments, name);
    match tool {
        "files" => file_words(member),
        "gui" => actions(arguments),
        _ => TELLING.iter().find_map(|name| member(name)).unwrap_or_default(),
    }
}

fn file_words(member: impl Fn(&str) -> Option<String>) -> String {
    let action = member("action").unwrap_or_default();
    let path = member("path").filter(|path| !path.is_empty());
    let text = member("text").filter(|_| action == "search").map(|text| format!("`{text}`"));
    let place = path.unwrap_or_else(|| if text.is_some() { String::new() } else { "/workspace".to_owned() });
    let words = [action, text.unwrap_or_default(), place];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Names the actions on a desktop.
fn actions(arguments: &str) -> String {
    let Ok(arguments) = serde_json::from_str::<Value>(arguments) else { return "several actions".to_owned() };
    let Some(actions) = arguments.get("actions").and_then(Value::as_array) else { return String::new() };
    let names: Vec<&str> =
        actions.iter().filter_map(|action| action.get("type").and_then(Value::as_str)).collect();
    if names.is_empty() { "look at the screen".to_owned() } else { names.join(", ") }
}

/// Returns a text member of the arguments. Of arguments that were cut off, the part that is there.
fn member(arguments: &str, name: &str) -> Option<String> {
    if let Ok(whole) = serde_json::from_str::<Value>(arguments) {
        return whole.get(name)?.as_str().map(str::to_owned);
    }
    let quoted = format!("\"{name}\"");
    let after = arguments.split_once(&quoted)?.1.trim_start().strip_prefix(':')?.trim_start();
    let text = after.strip_prefix('"')?;
    // The end of the text is the first quote that no backslash stands before.
    let mut escaped = false;
    let end = text.char_indices().find(|(_, letter)| {
        let is_end = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        is_end
    });
    let text = end.map_or(text, |(end, _)| &text[..end]);
    serde_json::from_str(&format!("\"{text}\"")).ok().or_else(|| Some(text.replace("\\n", "\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_what_tells_most_of_it() {
        for (tool, arguments, words) in [
            ("shell", r#"{"wait_s": 3, "command": "npm test"}"#, "npm test"),
            ("code", r#"{"language": "python", "code": "a = 1\nb = 2"}"#, "a = 1\nb = 2"),
            ("files", r#"{"action": "write", "path": "src/App.jsx", "content": "…"}"#, "write src/App.jsx"),
            ("files", r#"{"action": "search", "text": "todo"}"#, "search `todo`"),
            ("files", r#"{"action": "view", "path": ""}"#, "view /workspace"),
            (
                "gui",
                r#"{"actions": [{"type": "click", "x": 1}, {"type": "type", "text": "a"}]}"#,
                "click, type",
            ),
            ("gui", r#"{"actions": []}"#, "look at the screen"),
            ("recall", r#"{"query": "the port"}"#, "the port"),
            ("shell", "not json", ""),
        ] {
            assert_eq!(call_words(tool, arguments), words, "{arguments}");
        }
    }

    #[test]
    fn arguments_that_were_cut_off_still_tell() {
        let long = r#"{"action":"write","content":"line one\nline \"two\" and on"#;
        assert_eq!(call_words("files", long), "write /workspace");
        let long = r#"{"action":"write","path":"a \"b\".txt","content":"line"#;
        assert_eq!(call_words("files", long), "write a \"b\".txt");
        assert_eq!(call_words("shell", r#"{"command": "cat > x <<E\nlong"#), "cat > x <<E\nlong");
        assert_eq!(call_words("shell", r#"{"command": "ends in a \"#), "ends in a \\");
        assert_eq!(call_words("gui", r#"{"actions": [{"ty"#), "several actions");
    }
}
