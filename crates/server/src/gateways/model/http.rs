//! The HTTP client that all providers share: whom it trusts, and how patient it is.

use std::time::Duration;

use reqwest::Client;

/// How long is waited for what, and how often is asked.
#[derive(Debug, Clone)]
pub struct Patience {
    /// For a place among the calls that a provider is sent at once.
    pub queue: Duration,
    /// For a connection.
    pub connect: Duration,
    /// For the head of an answer. Local servers read the whole prompt first.
    pub first_byte: Duration,
    /// For the next bytes of an answer. Some models think for minutes between two.
    pub idle: Duration,
    /// For a whole answer.
    pub whole: Duration,
    /// Attempts in all.
    pub attempts: u32,
    /// Before the second attempt; twice as long before each later one.
    pub backoff: Duration,
    /// The longest wait between two attempts. A provider that wants more is given up for now.
    pub longest_wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            queue: Duration::from_secs(600),
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(300),
            whole: Duration::from_secs(3600),
            attempts: 5,
            backoff: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
        }
    }
}

impl Patience {
    /// How long to wait after so many failed attempts, at least one; none if there is no use. `chance` is between 0 and 1.
    pub(super) fn wait(&self, failed: u32, after: Option<Duration>, chance: f64) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let doubled = self.backoff.saturating_mul(1 << failed.saturating_sub(1).min(16));
        // Half fixed, half by chance, so that those who failed together do not come back together.
        let own = doubled.min(self.longest_wait).mul_f64(0.5 + chance / 2.0);
        match after {
            Some(after) if after > self.longest_wait => None,
            Some(after) => Some(after + own.min(after / 10)),
            None => Some(own),
        }
    }
}

/// There is no client.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// TLS can't be set up.
    #[error("set up TLS")]
    Tls(#[from] rustls::Error),
    /// HTTP can't be set up.
    #[error("set up HTTP")]
    Http(#[from] reqwest::Error),
}

/// Never follows a redirect, which would carry a key elsewhere, and reads no environment.
pub(super) fn client(patience: &Patience) -> Result<Client, HttpError> {
    let client = Client::builder()
        .tls_backend_preconfigured(crate::trust::of_this_host()?)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(patience.connect)
        .tcp_nodelay(true)
        .user_agent(concat!("sandyard/", env!("CARGO_PKG_VERSION")))
        .build()?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_end() {
        let patience = Patience::default();
        let wait = |failed, chance| patience.wait(failed, None, chance).map(|wait| wait.as_millis());
        assert_eq!((wait(1, 0.0), wait(1, 1.0)), (Some(250), Some(500)));
        assert_eq!((wait(4, 0.0), wait(4, 1.0)), (Some(2000), Some(4000)));
        assert_eq!(wait(5, 0.0), None);
        let endless = Patience { attempts: u32::MAX, ..patience };
        assert_eq!(endless.wait(u32::MAX - 1, None, 1.0), Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_the_provider_asks_for_is_waited_up_to_a_bound() {
        let patience = Patience::default();
        let seconds = Duration::from_secs;
        let wait = patience.wait(1, Some(seconds(20)), 1.0).unwrap();
        assert!(wait >= seconds(20) && wait <= seconds(22), "{wait:?}");
        assert_eq!(patience.wait(1, Some(seconds(3600)), 0.0), None);
        assert_eq!(patience.wait(1, Some(Duration::ZERO), 1.0), Some(Duration::ZERO));
    }
}
