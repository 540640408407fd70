//! The context of every command: output, environment, and the connection to a server.

use std::time::Duration;

use crate::client::{ApiClient, ClientError, Presence, ServerAddress};
use crate::config::{ConfigError, Flags, Layers, Settings, Surroundings};
use crate::errors::CommandError;
use crate::ui::Ui;

/// Default address of a server.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8000";

/// The value of `--url` that names the yard in this machine's data folder, whatever answers at the default address.
const OWN_YARD: &str = "local";

/// Longest wait for the socket of a server that another `run` is starting.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay between two attempts to reach a server that is starting.
const START_CHECK: Duration = Duration::from_millis(50);

/// The context of a command.
pub(crate) struct CommandContext {
    pub(crate) ui: Ui,
    pub(crate) surroundings: Surroundings,
    /// Address from `--url` or `SANDYARD_URL`.
    pub(crate) url: Option<String>,
    /// Key from `--token` or `SANDYARD_TOKEN`.
    pub(crate) token: Option<String>,
}

impl CommandContext {
    /// Loads the configuration with these flags. Warns about unknown variables.
    pub(crate) fn layers(&self, flags: &Flags) -> Result<Layers, ConfigError> {
        let layers = Layers::load(&self.surroundings, flags)?;
        layers.warnings().iter().for_each(|warning| self.ui.warn(warning));
        Ok(layers)
    }

    /// Returns the settings with these flags.
    pub(crate) fn settings(&self, flags: &Flags) -> Result<Settings, ConfigError> {
        Settings::new(&self.layers(flags)?)
    }

    /// Returns the address to try first.
    pub(crate) fn endpoint(&self, settings: &Settings) -> Result<ServerAddress, CommandError> {
        if self.url.as_deref() == Some(OWN_YARD) {
            return Ok(ServerAddress::Socket(settings.socket()));
        }
        let url = self.url.as_deref().unwrap_or(DEFAULT_URL);
        ServerAddress::parse(url).map_err(|error| {
            CommandError::usage_with_hint(error.to_string(), format!("an address looks like {DEFAULT_URL}"))
        })
    }

    /// Returns a client for an address, with the key of the user.
    pub(crate) fn client_at(&self, endpoint: ServerAddress) -> Result<ApiClient, ClientError> {
        ApiClient::new(endpoint, self.token.clone())
    }

    /// True if commands may use or become the yard of this machine: only if nobody named a server. Otherwise a mistyped address
    /// would list, run in, or prune another yard than the one that was meant.
    pub(crate) fn uses_own_yard(&self) -> bool {
        self.url.as_deref().is_none_or(|url| url == OWN_YARD)
    }

    /// Returns a client of the running server: at its address or, if none was named, on the socket of this machine's yard, which
    /// needs no key. `None` if no server answers.
    pub(crate) async fn running_server(
        &self,
        settings: &Settings,
    ) -> Result<Option<ApiClient>, CommandError> {
        let first = self.client_at(self.endpoint(settings)?)?;
        let presence = first.presence().await;
        if presence == Presence::Open {
            return Ok(Some(first));
        }
        if self.uses_own_yard() {
            let second = self.client_at(ServerAddress::Socket(settings.socket()))?;
            if second.presence().await == Presence::Open {
                return Ok(Some(second));
            }
        }
        Ok((presence == Presence::Locked).then_some(first))
    }

    /// Returns a client of the running server. If no server answers, the client is that of the first address, so that the next
    /// call reports the failure.
    pub(crate) async fn client(&self) -> Result<ApiClient, CommandError> {
        let settings = self.settings(&Flags::default())?;
        match self.running_server(&settings).await? {
            Some(client) => Ok(client),
            None => Ok(self.client_at(self.endpoint(&settings)?)?),
        }
    }

    /// Waits until a server that another process is starting answers, and returns its client.
    pub(crate) async fn wait_for_server(&self, endpoint: ServerAddress) -> Result<ApiClient, ClientError> {
        let client = self.client_at(endpoint)?;
        let ready = async {
            while client.presence().await != Presence::Open {
                tokio::time::sleep(START_CHECK).await;
            }
        };
        // If the server never answers, the next call reports it.
        drop(tokio::time::timeout(START_TIMEOUT, ready).await);
        Ok(client)
    }
}
