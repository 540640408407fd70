//! The HTTP client that all providers share: its trust and its timeouts.

use std::time::Duration;

use reqwest::Client;

/// Timeouts and retries of model calls.
#[derive(Debug, Clone)]
pub struct ProviderTimeouts {
    /// Longest wait for a slot among the calls that a provider gets at once.
    pub queue: Duration,
    /// Longest wait for a connection.
    pub connect: Duration,
    /// Longest wait until an answer begins. Local servers read the whole prompt first, and some models think before they speak.
    pub first_byte: Duration,
    /// Longest wait for the next bytes of an answer that has begun.
    pub idle: Duration,
    /// Longest time for a whole answer.
    pub whole: Duration,
    /// Attempts for one call, the first included. The default leaves the bound to `trouble`.
    pub attempts: u32,
    /// Longest time from the beginning of the first attempt to the beginning of an answer.
    pub trouble: Duration,
    /// Delay before the second attempt, doubled before each later one.
    pub backoff: Duration,
    /// Longest delay between two attempts. If a provider asks for more, the call fails.
    pub longest_wait: Duration,
}

impl Default for ProviderTimeouts {
    fn default() -> Self {
        Self {
            queue: Duration::from_secs(600),
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(60),
            whole: Duration::from_secs(3600),
            attempts: u32::MAX,
            trouble: Duration::from_secs(600),
            backoff: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
        }
    }
}

impl ProviderTimeouts {
    /// Returns the delay after `failed` attempts (at least 1), or none if the call is to fail. `after` is the delay that the
    /// provider asks for, `chance` a random number between 0 and 1.
    pub(super) fn wait(&self, failed: u32, after: Option<Duration>, chance: f64) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let doubled = self.backoff.saturating_mul(1 << failed.saturating_sub(1).min(16));
        // Half fixed, half random, so that calls that failed together are not repeated together.
        let own = doubled.min(self.longest_wait).mul_f64(0.5 + chance / 2.0);
        match after {
            Some(after) if after > self.longest_wait => None,
            Some(after) => Some(after + own.min(after / 10)),
            None => Some(own),
        }
    }
}

/// The client can't be made.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Setting up TLS failed.
    #[error("set up TLS")]
    Tls(#[from] rustls::Error),
    /// Setting up HTTP failed.
    #[error("set up HTTP")]
    Http(#[from] reqwest::Error),
}

/// Makes the client. It follows no redirect, which would send the key elsewhere, and reads no proxy from the environment.
pub(super) fn client(timeouts: &ProviderTimeouts) -> Result<Client, HttpError> {
    let client = Client::builder()
        .tls_backend_preconfigured(crate::trust::of_this_host()?)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(timeouts.connect)
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
        let timeouts = ProviderTimeouts::default();
        let wait = |failed, chance| timeouts.wait(failed, None, chance).map(|wait| wait.as_millis());
        assert_eq!((wait(1, 0.0), wait(1, 1.0)), (Some(250), Some(500)));
        assert_eq!((wait(4, 0.0), wait(4, 1.0)), (Some(2000), Some(4000)));
        assert_eq!(wait(u32::MAX - 1, 1.0), Some(60_000));
        let few = ProviderTimeouts { attempts: 5, ..timeouts };
        assert_eq!(few.wait(5, None, 0.0), None);
    }

    #[test]
    fn what_the_provider_asks_for_is_waited_up_to_a_bound() {
        let timeouts = ProviderTimeouts::default();
        let seconds = Duration::from_secs;
        let wait = timeouts.wait(1, Some(seconds(20)), 1.0).unwrap();
        assert!(wait >= seconds(20) && wait <= seconds(22), "{wait:?}");
        assert_eq!(timeouts.wait(1, Some(seconds(3600)), 0.0), None);
        assert_eq!(timeouts.wait(1, Some(Duration::ZERO), 1.0), Some(Duration::ZERO));
    }
}
