//! `sandyard open desktop`: the live view in a browser.

use clap::Args;

use super::browser;
use crate::client::Endpoint;
use crate::context::Context;
use crate::errors::CommandError;
use crate::exit_codes::Exit;
use crate::job;

/// Look at the desktop of a job in a browser
#[derive(Debug, Args)]
pub(crate) struct Desktop {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Take control instead of looking on
    #[arg(long)]
    control: bool,
    /// Print the address only
    #[arg(long)]
    no_browser: bool,
}

impl Desktop {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let Endpoint::Http(base) = client.endpoint() else {
            return Err(CommandError::usage_with_hint(
                "a browser can't reach a server that listens on a socket only".to_owned(),
                "serve with `sandyard up`, or use `sandyard open vnc`".to_owned(),
            ));
        };
        // A server with keys lets the page in by a ticket, good once and for 30 seconds.
        let path = match context.token {
            Some(_) => client.ticket(&id, "desktop").await?,
            None => format!("/jobs/{id}/desktop/"),
        };
        let separator = if path.contains('?') { '&' } else { '?' };
        let control = if self.control { format!("{separator}control=1") } else { String::new() };
        let address = format!("{base}{path}{control}");
        context.ui.line(&address)?;
        if !self.no_browser {
            browser::show(&address);
        }
        Ok(Exit::Success)
    }
}
