//! Arguments as a model wrote them, read into the tool's own type.
//!
//! Models forget a quote, call a member by another name or send a number as text. A rejection says what is wrong, lists the members
//! and repeats a valid example, so that the next attempt succeeds.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The arguments that a tool takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArgumentForm {
    /// Name by which the model calls the tool, repeated in refusals.
    pub(crate) tool: &'static str,
    /// Names of the members, each with other names under which models send it.
    pub(crate) members: &'static [(&'static str, &'static [&'static str])],
    /// Valid arguments, for rejections.
    pub(crate) example: &'static str,
}

/// The arguments are invalid. The text is written for the model.
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
    // Some providers send an empty text for a call without arguments.
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

/// Replaces other names of members by their own. An unknown member is rejected: a call that ignores it would not do what the model
/// asked for.
fn named(form: &ArgumentForm, members: Map<String, Value>) -> Result<Map<String, Value>, BadArguments> {
    let mut known = Map::new();
    for (name, value) in members {
        let member =
            form.members.iter().find(|(member, others)| *member == name || others.contains(&name.as_str()));
        let Some((member, _)) = member else {
            let members: Vec<&str> = form.members.iter().map(|(member, _)| *member).collect();
            return Err(form.refuse(&format!("there is no `{name}`; it takes {}", members.join(", "))));
        };
        // An explicit null is a member that was left out.
        if !value.is_null() {
            known.insert((*member).to_owned(), value);
        }
    }
    Ok(known)
}

impl ArgumentForm {
    /// Rejects arguments: names the problem and repeats the example.
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
