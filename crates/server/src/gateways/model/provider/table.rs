//! Prices and abilities of models from a table, and exact amounts of money.

use sandyard_protocol::ModelUsage;
use serde::Deserialize;

/// The table that ships with the server.
const TABLE: &str = include_str!("models.toml");
/// Characters that may follow a name of the table in a model's name, before a date, version or variant.
const BORDERS: [char; 3] = ['-', '@', ':'];

/// An amount of money in picodollars (10^-12 US dollars), so that one token of the cheapest model is a whole number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Money(u64);

impl Money {
    /// Converts dollars, up to some ten million. Negative amounts and NaN become zero.
    pub(crate) fn from_usd(usd: f64) -> Self {
        // A cast from float to integer saturates, and turns NaN into zero.
        Self((usd * 1e12).round() as u64)
    }

    /// Makes an amount from picodollars, the unit of the store.
    pub(crate) fn from_units(units: u64) -> Self {
        Self(units)
    }

    /// Returns picodollars, the unit of the store.
    pub(crate) fn units(self) -> u64 {
        self.0
    }

    /// Returns dollars, for display only.
    pub(crate) fn usd(self) -> f64 {
        self.0 as f64 / 1e12
    }

    pub(in crate::gateways::model) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(in crate::gateways::model) fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns how often `other` fits; `u64::MAX` if it is zero.
    pub(in crate::gateways::model) fn divided_by(self, other: Self) -> u64 {
        self.0.checked_div(other.0).unwrap_or(u64::MAX)
    }

    fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

/// Price of one token, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Price {
    input: Money,
    cached: Money,
    cache_write: Money,
    output: Money,
}

impl Price {
    /// Returns the price of a call.
    pub(in crate::gateways::model) fn of(&self, usage: &ModelUsage) -> Money {
        let plain = usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_written);
        let parts = [
            self.input.times(plain),
            self.cached.times(usage.cached),
            self.cache_write.times(usage.cache_written),
            self.output.times(usage.output),
        ];
        parts.into_iter().fold(Money::default(), Money::plus)
    }

    /// Returns this price with every token of input at the highest input price.
    pub(in crate::gateways::model) fn dearest_input(&self) -> Self {
        let dearest = self.input.max(self.cache_write);
        Self { input: dearest, cached: dearest, cache_write: dearest, output: self.output }
    }

    pub(in crate::gateways::model) fn output(&self) -> Money {
        self.output
    }
}

/// The table of models is not valid TOML.
#[derive(Debug, thiserror::Error)]
#[error("the table of models can't be read: {0}")]
pub struct TableError(#[from] toml::de::Error);

/// Abilities of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Longest conversation, in tokens.
    pub(crate) window: u32,
    /// Longest answer, in tokens.
    pub(crate) max_output: u32,
    /// True if the model accepts pictures.
    pub(crate) sees: bool,
}

impl Default for Abilities {
    /// An unknown model is taken for a small local one, so that calls fit.
    fn default() -> Self {
        Self { window: 32_768, max_output: 8192, sees: false }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTableFile {
    #[serde(default)]
    model: Vec<ModelTableRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTableRow {
    name: String,
    input: Option<f64>,
    cached: Option<f64>,
    cache_write: Option<f64>,
    output: Option<f64>,
    window: Option<u32>,
    max_output: Option<u32>,
    sees: Option<bool>,
}

/// Rows by name, the longest name first.
#[derive(Debug, Default)]
pub(crate) struct ModelTable(Vec<ModelTableRow>);

impl ModelTable {
    /// Reads the table of the server and the operator's own, whose rows win over rows of the same name.
    pub(crate) fn with(own: &str) -> Result<Self, TableError> {
        let (own, ours): (ModelTableFile, ModelTableFile) = (toml::from_str(own)?, toml::from_str(TABLE)?);
        let mut rows: Vec<_> = own.model.into_iter().chain(ours.model).collect();
        // The sort is stable: the operator's rows stay before the server's.
        rows.sort_by_key(|row| std::cmp::Reverse(row.name.len()));
        Ok(Self(rows))
    }

    /// Returns the price of `provider/name`.
    pub(in crate::gateways::model) fn price(&self, model: &str) -> Option<Price> {
        self.rows(model).find_map(ModelTableRow::price)
    }

    /// Returns the abilities of `provider/name`.
    pub(super) fn abilities(&self, model: &str) -> Abilities {
        let otherwise = Abilities::default();
        Abilities {
            window: self.rows(model).find_map(|row| row.window).unwrap_or(otherwise.window),
            max_output: self.rows(model).find_map(|row| row.max_output).unwrap_or(otherwise.max_output),
            sees: self.rows(model).find_map(|row| row.sees).unwrap_or(otherwise.sees),
        }
    }

    /// Returns the rows that match a model, the longest name first.
    fn rows(&self, model: &str) -> impl Iterator<Item = &ModelTableRow> {
        self.0.iter().filter(move |row| {
            let rest = model.strip_prefix(row.name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(BORDERS))
        })
    }
}

impl ModelTableRow {
    fn price(&self) -> Option<Price> {
        let per_token = |usd: f64| Money::from_usd(usd / 1e6);
        let (input, output) = self.input.zip(self.output)?;
        Some(Price {
            input: per_token(input),
            cached: per_token(self.cached.unwrap_or(input)),
            cache_write: per_token(self.cache_write.unwrap_or(input)),
            output: per_token(output),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_wins_and_a_name_ends_at_a_border() {
        let prices = ModelTable::with("").unwrap();
        let usd = |model: &str| {
            let usage = ModelUsage { output: 1_000_000, ..ModelUsage::default() };
            prices.price(model).map(|price| price.of(&usage).usd())
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
        let prices = ModelTable::with("").unwrap();
        let price = prices.price("anthropic/claude-sonnet-4-5").unwrap();
        let usage = ModelUsage { input: 1_000_000, cached: 600_000, cache_written: 300_000, output: 100_000 };
        let usd = price.of(&usage).usd();
        assert!((usd - (0.1 * 3.0 + 0.6 * 0.3 + 0.3 * 3.75 + 0.1 * 15.0)).abs() < 1e-9, "{usd}");
        let one = ModelUsage { cached: 1, input: 1, ..ModelUsage::default() };
        assert!(prices.price("openai/gpt-5-nano").unwrap().of(&one) > Money::default());
    }

    #[test]
    fn what_is_known_of_a_family_holds_for_its_members_and_the_operator_knows_better() {
        let table = ModelTable::with("").unwrap();
        assert!(table.abilities("openai/gpt-77").sees);
        assert_eq!(table.abilities("anthropic/claude-opus-4-8").window, 200_000);
        assert_eq!(table.abilities("ollama/llama3"), Abilities::default());
        let own = "[[model]]\nname = \"ollama/llama3\"\nwindow = 8192\n[[model]]\nname = \"openai/gpt-4o\"\ninput = 1.0\noutput = 2.0";
        let table = ModelTable::with(own).unwrap();
        assert_eq!(table.abilities("ollama/llama3:8b"), Abilities { window: 8192, ..Abilities::default() });
        assert!(table.price("ollama/llama3").is_none());
        let usage = ModelUsage { output: 1_000_000, ..ModelUsage::default() };
        assert_eq!(table.price("openai/gpt-4o").unwrap().of(&usage).usd(), 2.0);
        assert!(table.abilities("openai/gpt-4o").sees, "what the operator does not say is as we know it");
        assert!(ModelTable::with("[[model]]\nnam = 1").is_err());
    }

    #[test]
    fn nonsense_overflows_nothing() {
        let price = ModelTable::with("").unwrap().price("openai/gpt-4o").unwrap();
        let usage = ModelUsage { input: 0, cached: u64::MAX, cache_written: u64::MAX, output: u64::MAX };
        assert_eq!(price.of(&usage), Money(u64::MAX));
        assert_eq!(Money::from_usd(f64::NAN), Money::default());
        assert_eq!(Money::from_usd(-1.0), Money::default());
    }
}
