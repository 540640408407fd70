//! A job of kind `gui`: its main process. Reads its script, acts, prints what each action came to, saves a last picture.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandyard_protocol::GuiAction;
use sandyard_protocol::limits::GUI_ACTIONS;
use serde::Deserialize;
use serde_json::json;

use super::pause;
use super::{Done, Hands, HandsError, senseless};
use crate::keeper::desktop::control::NOTICE;

/// The role's name, as the first argument of our own program; the script's path is the second.
pub const ROLE: &str = "gui";
/// How often a person who has control is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Pictures of one job.
const MOST_PICTURES: usize = 1000;

/// A list of actions, as such or as the body of a request.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed {
    Bare(Vec<GuiAction>),
    Wrapped { actions: Vec<GuiAction> },
}

/// Why the job failed.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error("read the script: {0}")]
    Read(#[source] io::Error),
    #[error("the list of actions can't be understood: {0}")]
    List(#[from] serde_json::Error),
    #[error("a list has at most {GUI_ACTIONS} actions")]
    TooMany,
    #[error("action {number} ({name}) failed: {source}")]
    Action {
        number: usize,
        name: String,
        #[source]
        source: HandsError,
    },
    #[error("the desktop can't be used: {0}")]
    Desktop(#[from] HandsError),
    #[error("save a picture: {0}")]
    Save(#[source] io::Error),
}

/// The job's whole life; its exit code says whether all actions succeeded.
pub fn run() -> io::Result<()> {
    let script = std::env::args().nth(2).map(PathBuf::from).unwrap_or_default();
    perform(&script).map_err(|error| {
        let _ = writeln!(io::stderr(), "error: {error}");
        io::Error::other(error)
    })
}

fn perform(script: &Path) -> Result<(), JobError> {
    let actions = read(&std::fs::read_to_string(script).map_err(JobError::Read)?)?;
    let hands = Hands::connect()?;
    let outcome = actions.iter().enumerate().try_for_each(|(index, action)| {
        wait_for_control();
        let name = name(action);
        let done = hands.act(action).map_err(|source| JobError::Action {
            number: index + 1,
            name: name.clone(),
            source,
        })?;
        tell(&name, done)
    });
    let last = hands.act(&GuiAction::Screenshot { window: None })?;
    tell("final", last)?;
    outcome
}

fn read(code: &str) -> Result<Vec<GuiAction>, JobError> {
    if !code.trim_start().starts_with(['[', '{']) {
        return Ok(vec![GuiAction::Xdotool { script: code.to_owned() }]);
    }
    let actions = match serde_json::from_str::<Listed>(code) {
        Ok(Listed::Bare(actions) | Listed::Wrapped { actions }) => actions,
        // The untagged form hides which action is wrong; the bare one names it.
        Err(_) => serde_json::from_str::<Vec<GuiAction>>(code)?,
    };
    if actions.len() > GUI_ACTIONS { Err(JobError::TooMany) } else { Ok(actions) }
}

fn name(action: &GuiAction) -> String {
    let value = serde_json::to_value(action).unwrap_or_default();
    value["type"].as_str().unwrap_or_default().to_owned()
}

/// While a person has control, the job's hands rest.
fn wait_for_control() {
    let mut told = false;
    while let Ok(who) = std::fs::read_to_string(NOTICE) {
        if !told {
            let _ = writeln!(io::stderr(), "waiting: {who} controls the desktop");
            told = true;
        }
        pause(LOOK_AGAIN);
    }
}

fn tell(name: &str, done: Done) -> Result<(), JobError> {
    let mut line = serde_json::to_value(&done.result)?;
    line["type"] = json!(name);
    if let Some(png) = done.png {
        line["file"] = json!(save(&png).map_err(JobError::Save)?);
    }
    writeln!(io::stdout(), "{line}").map_err(JobError::Save)
}

/// Beside what is there: nothing of the job's is overwritten.
fn save(png: &[u8]) -> io::Result<String> {
    for number in 1..=MOST_PICTURES {
        let name = if number == 1 { "screenshot.png".to_owned() } else { format!("screenshot-{number}.png") };
        match File::options().write(true).create_new(true).open(&name) {
            Ok(mut file) => return file.write_all(png).map(|()| name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(senseless("too many pictures")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_told_from_a_script() {
        assert_eq!(read("[{\"type\":\"windows\"}]").unwrap(), [GuiAction::Windows]);
        assert_eq!(read(" {\"actions\":[{\"type\":\"windows\"}]}").unwrap(), [GuiAction::Windows]);
        let script = "key ctrl+l\n";
        assert_eq!(read(script).unwrap(), [GuiAction::Xdotool { script: script.into() }]);
        let error = read("[{\"type\":\"fly\"}]").unwrap_err().to_string();
        assert!(error.contains("fly"), "{error}");
    }
}
