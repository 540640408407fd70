//! The shape of the protocol as text: one line for each type, member, variant and limit, in a stable order.

use std::collections::BTreeMap;

/// Lines of a schema by what they describe: `StartProcess.cwd`, `Request::ping`, `limit DATA_BYTES`.
pub(crate) type Shape = BTreeMap<String, Line>;

/// What is frozen about one type, member, variant or limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The kind of a type, the type of a member, the content of a variant, or the value of a limit.
    pub(crate) form: String,
    /// What serde was told about it.
    pub(crate) flags: Vec<Flag>,
}

/// Attributes that decide whether two builds understand each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flag {
    /// The reader accepts a message without this member.
    Optional,
    /// The writer may leave this member out.
    Omitted,
    /// Members of this type stand beside those of the type that holds it.
    Flattened,
    /// The reader rejects members that it does not know.
    Strict,
    /// Another name under which the reader accepts this member or variant.
    Alias(String),
}

impl Line {
    pub(crate) fn new(form: impl Into<String>, mut flags: Vec<Flag>) -> Self {
        flags.sort();
        Self { form: form.into(), flags }
    }

    pub(crate) fn has(&self, flag: &Flag) -> bool {
        self.flags.contains(flag)
    }
}

impl Flag {
    fn to_text(&self) -> String {
        match self {
            Self::Optional => "optional".into(),
            Self::Omitted => "omitted".into(),
            Self::Flattened => "flattened".into(),
            Self::Strict => "strict".into(),
            Self::Alias(name) => format!("alias {name}"),
        }
    }

    fn from_text(text: &str) -> Self {
        match text {
            "optional" => Self::Optional,
            "omitted" => Self::Omitted,
            "flattened" => Self::Flattened,
            "strict" => Self::Strict,
            other => Self::Alias(other.strip_prefix("alias ").expect("a known flag").into()),
        }
    }
}

/// Writes a schema file.
pub(crate) fn to_text(shape: &Shape, generation: u32) -> String {
    let mut text = format!(
        "# Shape of the guest protocol, generation {generation}. The rules and the command that writes this file: docs/protocol.md.\n"
    );
    for (subject, line) in shape {
        let flags: String = line.flags.iter().map(|flag| format!(" [{}]", flag.to_text())).collect();
        text.push_str(&format!("{subject} = {}{flags}\n", line.form));
    }
    text
}

/// Reads a schema file.
pub(crate) fn from_text(text: &str) -> Shape {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (subject, rest) = line.split_once(" = ").expect("a subject and its form");
            let mut parts = rest.split(" [");
            let form = parts.next().expect("a form");
            let flags = parts.map(|flag| Flag::from_text(flag.trim_end_matches(']'))).collect();
            (subject.to_owned(), Line::new(form, flags))
        })
        .collect()
}
