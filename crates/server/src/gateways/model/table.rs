//! What models cost and what they can do: a table in a file, and money that adds up exactly.

use sandyard_protocol::ModelUsage;
use serde::Deserialize;

/// The table that ships with the server.
const TABLE: &str = include_str!("models.toml");
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

    /// So many millionths of a millionth of a dollar, as the store keeps it.
    pub(crate) fn from_units(units: u64) -> Self {
        Self(units)
    }

    /// As the store keeps it.
    pub(crate) fn units(self) -> u64 {
        self.0
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

/// A table of models can't be read.
#[derive(Debug, thiserror::Error)]
#[error("the table of models can't be read: {0}")]
pub struct TableError(#[from] toml::de::Error);

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Tokens of a whole conversation.
    pub(crate) window: u32,
    /// Tokens of the longest answer.
    pub(crate) max_output: u32,
    /// Whether it takes pictures.
    pub(crate) sees: bool,
}

impl Default for Abilities {
    /// A small local model: what is assumed of one that nobody knows must not be too much.
    fn default() -> Self {
        Self { window: 32_768, max_output: 8192, sees: false }
    }
}

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
    input: Option<f64>,
    cached: Option<f64>,
    cache_write: Option<f64>,
    output: Option<f64>,
    window: Option<u32>,
    max_output: Option<u32>,
    sees: Option<bool>,
}

/// Models by name, the longest first.
#[derive(Debug, Default)]
pub(crate) struct ModelTable(Vec<Row>);

impl ModelTable {
    /// The table that ships with the server, with rows of the operator's own, which win where the name is the same.
    pub(crate) fn with(own: &str) -> Result<Self, TableError> {
        let (own, ours): (Table, Table) = (toml::from_str(own)?, toml::from_str(TABLE)?);
        let mut rows: Vec<_> = own.model.into_iter().chain(ours.model).collect();
        // Stable: the operator's rows stay before ours.
        rows.sort_by_key(|row| std::cmp::Reverse(row.name.len()));
        Ok(Self(rows))
    }

    /// What a model costs, as `provider/name`.
    pub(super) fn price(&self, model: &str) -> Option<Price> {
        self.rows(model).find_map(Row::price)
    }

    /// What a model can do.
    pub(super) fn abilities(&self, model: &str) -> Abilities {
        let otherwise = Abilities::default();
        Abilities {
            window: self.rows(model).find_map(|row| row.window).unwrap_or(otherwise.window),
            max_output: self.rows(model).find_map(|row| row.max_output).unwrap_or(otherwise.max_output),
            sees: self.rows(model).find_map(|row| row.sees).unwrap_or(otherwise.sees),
        }
    }

    /// Rows that speak of a model, the most exact first.
    fn rows(&self, model: &str) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| {
            let rest = model.strip_prefix(row.name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(BORDERS))
        })
    }
}

impl Row {
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
