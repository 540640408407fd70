//! The log of a server: to standard error, as text or as JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Sets up the log of this process from a level, or from `target=level` directives. Invalid directives are ignored.
pub(crate) fn to_stderr(directives: &str, json: bool) {
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    // With internal errors on, a failed write to standard error panics. A log on a full disk must not end the
    // server.
    let layer = layer.with_ansi(io::stderr().is_terminal()).log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter(directives));
    // Set up once, from main; a second time would be a mistake without consequence.
    let result = if json { registry.with(layer.json()).try_init() } else { registry.with(layer).try_init() };
    drop(result);
}

fn filter(directives: &str) -> Targets {
    let sensible = directives.split(',').filter_map(|directive| directive.trim().parse::<Targets>().ok());
    // The MCP library tells at `info` of every single call; directives of one's own win, because they come later.
    let quiet = Targets::new().with_target("rmcp", tracing::Level::WARN);
    sensible.fold(quiet, |filter, own| {
        let filter = own.iter().fold(filter, |filter, (target, level)| filter.with_target(target, level));
        match own.default_level() {
            Some(level) => filter.with_default(level),
            None => filter,
        }
    })
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn directives_are_taken_one_by_one_and_nonsense_is_left_out() {
        let filter = filter("info, sandyard_server=debug,nonsense=often");
        assert!(filter.would_enable("sandyard_server", &Level::DEBUG));
        assert!(filter.would_enable("hyper", &Level::INFO));
        assert!(!filter.would_enable("hyper", &Level::DEBUG));
        assert!(!filter.would_enable("rmcp", &Level::INFO));
    }

    #[test]
    fn a_directive_of_ones_own_wins() {
        assert!(filter("rmcp=trace").would_enable("rmcp", &Level::TRACE));
    }
}
