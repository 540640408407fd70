//! Arguments as a model wrote them: read by the tool's own type, refused with what is wrong and what would be right.
//!
//! Models forget a quote, call a member by another name or send a number as text. The refusal names the member and the nearest
//! known one and repeats the tool's form, so that the next try succeeds.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What a tool takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArgumentForm {
    /// The tool's name.
    pub(crate) tool: &'static str,
    /// Its members, and other names under which models send them.
    pub(crate) members: &'static [(&'static str, &'static [&'static str])],
    /// An example that is right.
    pub(crate) example: &'static str,
}

/// The arguments can't be used; the text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadArguments(pub(crate) String);

/// Reads a tool's arguments.
pub(crate) fn read<T: DeserializeOwned>(form: &ArgumentForm, arguments: &str) -> Result<T, BadArguments> {
    let members = object(form, arguments)?;
    let members = named(form, members)?;
    serde_json::from_value(Value::Object(members)).map_err(|error| form.refuse(&error.to_string()))
}

fn object(form: &ArgumentForm, arguments: &str) -> Result<Map<String, Value>, BadArguments> {
    // No arguments at all are sent as nothing by some providers.
    if arguments.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(arguments) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(form.refuse("the arguments are not a JSON object")),
        Err(error) if error.is_eof() => Err(form.refuse(
            "the arguments end in the middle: the answer was probably cut off; use a shorter one, in several calls if need be",
        )),
        Err(error) => Err(form.refuse(&format!("the arguments are not JSON: {error}"))),
    }
}

/// Gives members their own names. One that is unknown is refused: ignoring it would do something else than was asked.
fn named(form: &ArgumentForm, members: Map<String, Value>) -> Result<Map<String, Value>, BadArguments> {
    let mut known = Map::new();
    for (name, value) in members {
        let member =
            form.members.iter().find(|(member, others)| *member == name || others.contains(&name.as_str()));
        let Some((member, _)) = member else {
            let members: Vec<&str> = form.members.iter().map(|(member, _)| *member).collect();
            return Err(form.refuse(&format!("there is no `{name}`; it takes {}", members.join(", "))));
        };
        // An explicit null is a member that is not there.
        if !value.is_null() {
            known.insert((*member).to_owned(), value);
        }
    }
    Ok(known)
}

impl ArgumentForm {
    /// A refusal with the tool's form.
    pub(crate) fn refuse(&self, what: &str) -> BadArguments {
        BadArguments(format!("{}: {what}. Nothing was done. For example: {}", self.tool, self.example))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    const FORM: ArgumentForm = ArgumentForm {
        tool: "shell",
        members: &[("command", &["cmd"]), ("wait_s", &["timeout"])],
        example: r#"{"command": "ls"}"#,
    };

    #[derive(Debug, PartialEq, Deserialize)]
    struct Arguments {
        command: String,
        wait_s: Option<u64>,
    }

    fn refusal(arguments: &str) -> String {
        read::<Arguments>(&FORM, arguments).unwrap_err().0
    }

    #[test]
    fn members_are_found_by_their_other_names_and_nulls_are_absent() {
        let read = read::<Arguments>(&FORM, r#"{"cmd": "ls", "timeout": null}"#).unwrap();
        assert_eq!(read, Arguments { command: "ls".into(), wait_s: None });
    }

    #[test]
    fn a_refusal_says_what_is_wrong_and_what_would_be_right() {
        for (arguments, said) in [
            (r#"{"command": "ls", "folder": "x"}"#, "there is no `folder`; it takes command, wait_s"),
            (r#"{"command": "ls"#, "end in the middle"),
            (r#"["ls"]"#, "not a JSON object"),
            (r#"{command: ls}"#, "not JSON"),
            ("", "missing field `command`"),
            (r#"{"command": 7}"#, "invalid type"),
        ] {
            let refusal = refusal(arguments);
            assert!(refusal.contains(said) && refusal.contains(FORM.example), "{arguments}: {refusal}");
        }
    }
}
