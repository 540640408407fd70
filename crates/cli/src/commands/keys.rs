//! `sandyard keys`: the keys that open the server of this machine's data folder.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sandyard_server::auth::KeyFile;

use crate::config::Flags;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::serve::ServeError;
use crate::ui::{TableCell, counted};

const EXAMPLES: &str = "\
Examples:
  sandyard keys create    prints a new key, once
  sandyard keys list      ids, as audits name them; never the keys
  sandyard keys revoke 1f2e3d4c5b6a";

/// List, create and revoke the keys of the server in this machine's data folder
///
/// A running server reads its keys when it starts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KeysCommand {
    #[command(subcommand)]
    verb: KeysVerb,
    /// The data folder of the server [env: SANDYARD_DATA]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
}

const LIST_EXAMPLES: &str = "\
Examples:
  sandyard keys list
  sandyard keys list --data /srv/yard --json";

const CREATE_EXAMPLES: &str = "\
Examples:
  sandyard keys create
  SANDYARD_TOKEN=$(sandyard keys create) && sandyard up";

const REVOKE_EXAMPLES: &str = "\
Examples:
  sandyard keys revoke 1f2e3d4c5b6a";

#[derive(Debug, Subcommand)]
enum KeysVerb {
    /// List the ids of all keys
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a key and print it, once
    #[command(after_help = CREATE_EXAMPLES)]
    Create,
    /// Remove a key
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke {
        /// The id of the key, as `list` prints it
        id: String,
    },
}

impl KeysCommand {
    pub(crate) fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let mut flags = Flags::default();
        flags.set("data", self.data.as_ref().map(|path| path.display()));
        let path = context.settings(&flags)?.data.join("api.key");
        let file = KeyFile::new(&path);
        match self.verb {
            KeysVerb::List { json } => {
                let ids = file.ids().map_err(ServeError::from)?;
                if json {
                    context.ui.json(&serde_json::json!({ "keys": ids }))?;
                } else {
                    let rows: Vec<_> = ids.iter().map(|id| vec![TableCell::plain(id)]).collect();
                    context.ui.table(&["KEY"], &rows)?;
                    context.ui.faint(&format!("{} in {}", counted(ids.len(), "key"), path.display()));
                }
            }
            KeysVerb::Create => {
                let key = file.add().map_err(ServeError::from)?;
                context.ui.line(key.expose())?;
                context.ui.note("it is shown only now; a running server takes it after a restart");
            }
            KeysVerb::Revoke { id } => {
                // An empty file stops the server's next start.
                if file.ids().map_err(ServeError::from)? == [id.clone()] {
                    return Err(CommandError::usage_with_hint(
                        "that is the only key",
                        "create another one first; without the file a server on loopback asks for none",
                    ));
                }
                if !file.remove(&id).map_err(ServeError::from)? {
                    return Err(CommandError::usage_with_hint(
                        format!("there is no key `{id}`"),
                        "`sandyard keys list` names all of them",
                    ));
                }
                context.ui.note("removed; a running server takes it until its next start");
            }
        }
        Ok(CommandExit::Success)
    }
}
