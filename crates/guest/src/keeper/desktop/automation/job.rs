//! The main process of a job of kind `gui`. Reads its script, performs the actions, prints the outcome of each, saves a last picture.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandyard_protocol::GuiAction;
use sandyard_protocol::limits::GUI_ACTIONS;
use serde::Deserialize;
use serde_json::json;

use super::client::{ActionOutcome, DisplayClient, DisplayError, invalid, pause};
use crate::keeper::desktop::control::NOTICE;

/// The role's name, as the first argument of the guest's program; the script's path is the second.
pub const ROLE: &str = "gui";
/// Interval between two looks at who has control.
const CONTROL_INTERVAL: Duration = Duration::from_millis(200);
/// Pictures that one job saves.
const MAX_PICTURES: usize = 1000;

/// A list of actions, as such or as the body of a request.
#[derive(Deserialize)]
#[serde(untagged)]
enum ActionList {
    Bare(Vec<GuiAction>),
    Wrapped { actions: Vec<GuiAction> },
}

/// A job that failed.
#[derive(Debug, thiserror::Error)]
enum GuiJobError {
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
        source: DisplayError,
    },
    #[error("the desktop can't be used: {0}")]
    Desktop(#[from] DisplayError),
    #[error("save a picture: {0}")]
    Save(#[source] io::Error),
}

/// Runs the job. Its exit code says whether all actions succeeded.
pub fn run() -> io::Result<()> {
    let script = std::env::args().nth(2).map(PathBuf::from).unwrap_or_default();
    perform(&script).map_err(|error| {
        let _ = writeln!(io::stderr(), "error: {error}");
        io::Error::other(error)
    })
}

fn perform(script: &Path) -> Result<(), GuiJobError> {
    let actions = read(&std::fs::read_to_string(script).map_err(GuiJobError::Read)?)?;
    let client = DisplayClient::connect()?;
    let outcome = actions.iter().enumerate().try_for_each(|(index, action)| {
        wait_for_control();
        let name = name(action);
        let done = client.act(action).map_err(|source| GuiJobError::Action {
            number: index + 1,
            name: name.clone(),
            source,
        })?;
        print(&name, done)
    });
    let last = client.act(&GuiAction::Screenshot { window: None })?;
    print("final", last)?;
    outcome
}

fn read(code: &str) -> Result<Vec<GuiAction>, GuiJobError> {
    if !code.trim_start().starts_with(['[', '{']) {
        return Ok(vec![GuiAction::Xdotool { script: code.to_owned() }]);
    }
    let actions = match serde_json::from_str::<ActionList>(code) {
        Ok(ActionList::Bare(actions) | ActionList::Wrapped { actions }) => actions,
        // The untagged form hides which action is wrong; the bare one names it.
        Err(_) => serde_json::from_str::<Vec<GuiAction>>(code)?,
    };
    if actions.len() > GUI_ACTIONS { Err(GuiJobError::TooMany) } else { Ok(actions) }
}

fn name(action: &GuiAction) -> String {
    let value = serde_json::to_value(action).unwrap_or_default();
    value["type"].as_str().unwrap_or_default().to_owned()
}

/// Waits while a person has control.
fn wait_for_control() {
    let mut announced = false;
    while let Ok(who) = std::fs::read_to_string(NOTICE) {
        if !announced {
            let _ = writeln!(io::stderr(), "waiting: {who} controls the desktop");
            announced = true;
        }
        pause(CONTROL_INTERVAL);
    }
}

fn print(name: &str, done: ActionOutcome) -> Result<(), GuiJobError> {
    let mut line = serde_json::to_value(&done.result)?;
    line["type"] = json!(name);
    if let Some(png) = done.png {
        line["file"] = json!(save(&png).map_err(GuiJobError::Save)?);
    }
    writeln!(io::stdout(), "{line}").map_err(GuiJobError::Save)
}

/// Saves a picture under a free name: no file of the job is overwritten.
fn save(png: &[u8]) -> io::Result<String> {
    for number in 1..=MAX_PICTURES {
        let name = if number == 1 { "screenshot.png".to_owned() } else { format!("screenshot-{number}.png") };
        match File::options().write(true).create_new(true).open(&name) {
            Ok(mut file) => return file.write_all(png).map(|()| name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(invalid("too many pictures")))
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
