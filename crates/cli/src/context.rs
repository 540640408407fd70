//! What every command is given: the interface, the surroundings, and the way to a server.

use std::time::Duration;

use crate::client::{Client, ClientError, Presence, ServerAddress};
use crate::config::{ConfigError, Flags, Layers, Settings, Surroundings};
use crate::errors::CommandError;
use crate::ui::Ui;

/// Where a server is if nobody says otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:8000";

/// How long another `run` may take until its socket answers.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay between two looks at a server that is starting.
const START_CHECK: Duration = Duration::from_millis(50);

/// Given to every command.
pub(crate) struct CommandContext {
    /// How to talk to the person.
    pub(crate) ui: Ui,
    /// Environment and user.
    pub(crate) surroundings: Surroundings,
    /// `--url` or `SANDYARD_URL`.
    pub(crate) url: Option<String>,
    /// `--token` or `SANDYARD_TOKEN`.
    pub(crate) token: Option<String>,
}

impl CommandContext {
    /// The layers with these flags on top; odd variables are warned about.
    pub(crate) fn layers(&self, flags: &Flags) -> Result<Layers, ConfigError> {
        let layers = Layers::load(&self.surroundings, flags)?;
        layers.warnings().iter().for_each(|warning| self.ui.warn(warning));
        Ok(layers)
    }

    /// The settings with these flags on top.
    pub(crate) fn settings(&self, flags: &Flags) -> Result<Settings, ConfigError> {
        Settings::new(&self.layers(flags)?)
    }

    /// The address to try first.
    pub(crate) fn endpoint(&self) -> Result<ServerAddress, CommandError> {
        let url = self.url.as_deref().unwrap_or(DEFAULT_URL);
        ServerAddress::parse(url).map_err(|error| {
            CommandError::usage_with_hint(error.to_string(), format!("an address looks like {DEFAULT_URL}"))
        })
    }

    /// A client for an address, with the user's key.
    pub(crate) fn client_at(&self, endpoint: ServerAddress) -> Result<Client, ClientError> {
        Client::new(endpoint, self.token.clone())
    }

    /// The running server: at its address, or on the socket of this machine's yard, which needs no key. `None` if
    /// there is neither.
    pub(crate) async fn running_server(&self, settings: &Settings) -> Result<Option<Client>, CommandError> {
        let first = self.client_at(self.endpoint()?)?;
        let presence = first.presence().await;
        if presence == Presence::Open {
            return Ok(Some(first));
        }
        if first.endpoint().is_local() {
            let second = self.client_at(ServerAddress::Socket(settings.socket()))?;
            if second.presence().await == Presence::Open {
                return Ok(Some(second));
            }
        }
        Ok((presence == Presence::Locked).then_some(first))
    }

    /// The running server. Without one the first address is returned, so that the call itself reports who is missing.
    pub(crate) async fn client(&self) -> Result<Client, CommandError> {
        let settings = self.settings(&Flags::default())?;
        match self.running_server(&settings).await? {
            Some(client) => Ok(client),
            None => Ok(self.client_at(self.endpoint()?)?),
        }
    }

    /// Waits until a server that another process is starting answers, and returns its client.
    pub(crate) async fn wait_for_server(&self, endpoint: ServerAddress) -> Result<Client, ClientError> {
        let client = self.client_at(endpoint)?;
        let ready = async {
            while client.presence().await != Presence::Open {
                tokio::time::sleep(START_CHECK).await;
            }
        };
        // If it never answers, the next call says so.
        drop(tokio::time::timeout(START_TIMEOUT, ready).await);
        Ok(client)
    }
}
