//! What models cost: a table in a file, and money that adds up exactly.

use sandyard_protocol::ModelUsage;
use serde::Deserialize;

/// The table that ships with the server.
const TABLE: &str = include_str!("prices.toml");
/// What may follow a name in the table: dates, versions, variants.
const BORDERS: [char; 3] = ['-', '@', ':'];

/// Money, in millionths of a millionth of a US dollar, so that one token of the cheapest model is a whole number of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Money(u64);

impl Money {
    /// Up to some ten million dollars; negative amounts and other nonsense are nothing.
    pub(crate) fn from_usd(usd: f64) -> Self {
        // A cast from float to integer saturates, and takes NaN for zero.
        Self((usd * 1e12).round() as u64)
    }

    /// For show.
    pub(crate) fn usd(self) -> f64 {
        self.0 as f64 / 1e12
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// How often `other` fits; as often as one likes if it is nothing.
    pub(super) fn divided_by(self, other: Self) -> u64 {
        self.0.checked_div(other.0).unwrap_or(u64::MAX)
    }

    fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

/// What one token of a model costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Price {
    input: Money,
    cached: Money,
    cache_write: Money,
    output: Money,
}

impl Price {
    /// Of a call.
    pub(super) fn of(&self, usage: &ModelUsage) -> Money {
        let plain = usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_written);
        let parts = [
            self.input.times(plain),
            self.cached.times(usage.cached),
            self.cache_write.times(usage.cache_written),
            self.output.times(usage.output),
        ];
        parts.into_iter().fold(Money::default(), Money::plus)
    }

    /// The most that a token of input can cost.
    pub(super) fn dearest_input(&self) -> Self {
        let dearest = self.input.max(self.cache_write);
        Self { input: dearest, cached: dearest, cache_write: dearest, output: self.output }
    }

    pub(super) fn output(&self) -> Money {
        self.output
    }
}

/// A table of prices can't be read.
#[derive(Debug, thiserror::Error)]
#[error("the table of prices can't be read: {0}")]
pub(crate) struct PricesError(#[from] toml::de::Error);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    model: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    input: f64,
    cached: Option<f64>,
    cache_write: Option<f64>,
    output: f64,
}

/// Prices by name, the longest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prices(Vec<(String, Price)>);

impl Prices {
    /// The table that ships with the server.
    pub(crate) fn embedded() -> Result<Self, PricesError> {
        Self::parse(TABLE)
    }

    /// Reads a table.
    pub(crate) fn parse(text: &str) -> Result<Self, PricesError> {
        let table: Table = toml::from_str(text)?;
        let mut rows: Vec<_> = table.model.into_iter().map(|row| (row.name.clone(), row.price())).collect();
        rows.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Ok(Self(rows))
    }

    /// Of a model as `provider/name`.
    pub(super) fn find(&self, model: &str) -> Option<Price> {
        let fits = |name: &String| {
            model.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(BORDERS))
        };
        self.0.iter().find(|(name, _)| fits(name)).map(|(_, price)| *price)
    }
}

impl Row {
    fn price(&self) -> Price {
        let per_token = |usd: f64| Money::from_usd(usd / 1e6);
        Price {
            input: per_token(self.input),
            cached: per_token(self.cached.unwrap_or(self.input)),
            cache_write: per_token(self.cache_write.unwrap_or(self.input)),
            output: per_token(self.output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_wins_and_a_name_ends_at_a_border() {
        let prices = Prices::embedded().unwrap();
        let usd = |model: &str| {
            let usage = ModelUsage { output: 1_000_000, ..ModelUsage::default() };
            prices.find(model).map(|price| price.of(&usage).usd())
        };
        assert_eq!(usd("openai/gpt-4o-2024-08-06"), Some(10.0));
        assert_eq!(usd("openai/gpt-4o-mini-2024-07-18"), Some(0.6));
        assert_eq!(usd("anthropic/claude-opus-4-1-20250805"), Some(75.0));
        assert_eq!(usd("anthropic/claude-opus-4-8"), Some(25.0));
        assert_eq!(usd("openai/gpt-4oh"), None);
        assert_eq!(usd("openai/gpt-5.9"), None, "a version that is not in the table has no price");
        assert_eq!(usd("ollama/llama3"), None);
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let prices = Prices::embedded().unwrap();
        let price = prices.find("anthropic/claude-sonnet-4-5").unwrap();
        let usage = ModelUsage { input: 1_000_000, cached: 600_000, cache_written: 300_000, output: 100_000 };
        let usd = price.of(&usage).usd();
        assert!((usd - (0.1 * 3.0 + 0.6 * 0.3 + 0.3 * 3.75 + 0.1 * 15.0)).abs() < 1e-9, "{usd}");
        let one = ModelUsage { cached: 1, input: 1, ..ModelUsage::default() };
        assert!(prices.find("openai/gpt-5-nano").unwrap().of(&one) > Money::default());
    }

    #[test]
    fn nonsense_overflows_nothing() {
        let price = Prices::embedded().unwrap().find("openai/gpt-4o").unwrap();
        let usage = ModelUsage { input: 0, cached: u64::MAX, cache_written: u64::MAX, output: u64::MAX };
        assert_eq!(price.of(&usage), Money(u64::MAX));
        assert_eq!(Money::from_usd(f64::NAN), Money::default());
        assert_eq!(Money::from_usd(-1.0), Money::default());
    }
}
