//! The link that is up now, for services that open streams to the host themselves.

use sandyard_pipe::Link;
use tokio::sync::watch;

/// The link that is up now, if any.
#[derive(Debug)]
pub(super) struct HostLink(watch::Sender<Option<Link>>);

/// Makes a link available to services until this is dropped.
#[derive(Debug)]
pub(super) struct PublishedLink<'a>(&'a HostLink);

impl Drop for PublishedLink<'_> {
    fn drop(&mut self) {
        self.0.0.send_replace(None);
    }
}

impl Default for HostLink {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl HostLink {
    /// Makes a link available to services until the returned guard is dropped.
    pub(super) fn publish(&self, link: Link) -> PublishedLink<'_> {
        self.0.send_replace(Some(link));
        PublishedLink(self)
    }

    /// The link that is up, and its changes.
    pub(super) fn watch(&self) -> watch::Receiver<Option<Link>> {
        self.0.subscribe()
    }

    /// Returns the link that is up, or the next one.
    pub(super) async fn wait(&self) -> Option<Link> {
        self.0.subscribe().wait_for(Option::is_some).await.ok()?.clone()
    }
}
