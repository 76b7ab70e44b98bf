//! `[price]`: what models charge for tokens, and which entry a model's name means.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::tables::Taken;
use crate::value::{Given, ValueError};

/// Words that a name may have behind a model's own, besides numbers: it is the same model.
const EDITIONS: &[&str] = &["latest", "preview", "exp"];
/// A number with fewer digits is a version, and another version is another model.
const MIN_EDITION_DIGITS: usize = 3;

pub(crate) const FIELDS: &[&str] = &["input", "cached", "output", "date"];

/// Prices by the names of models.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prices(BTreeMap<String, Entry>);

/// A price as far as the layers have said it.
#[derive(Debug, Clone, PartialEq, Default)]
struct Entry {
    input: Option<f64>,
    cached: Option<f64>,
    output: Option<f64>,
    date: Option<String>,
}

/// What a model charges, in dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price<'a> {
    /// What it reads.
    pub input: f64,
    /// What it reads from a cache.
    pub cached: f64,
    pub output: f64,
    /// When this was the list price; nothing where a price is of the user's own.
    pub date: Option<&'a str>,
}

impl Entry {
    fn price(&self) -> Option<Price<'_>> {
        let (input, output) = (self.input?, self.output?);
        Some(Price { input, cached: self.cached.unwrap_or(input), output, date: self.date.as_deref() })
    }
}

impl Prices {
    pub(crate) const NONE: Self = Self(BTreeMap::new());

    /// The price of a model: the one with its very name, else the longest name that it is an edition of, such as
    /// `claude-sonnet-4-5` for `anthropic/claude-sonnet-4-5-20250929`.
    pub fn of(&self, model: &str) -> Option<Price<'_>> {
        let own = model.rsplit('/').next().unwrap_or(model);
        let editions = || self.0.iter().filter(|(name, _)| is_edition(own, name));
        let entry = self.0.get(model).or_else(|| self.0.get(own));
        entry
            .or_else(|| editions().max_by_key(|(name, _)| name.len()).map(|(_, entry)| entry))
            .and_then(Entry::price)
    }

    /// A model without one of the two prices that nothing can stand for, and which.
    pub(crate) fn incomplete(&self) -> Option<(&str, &'static str)> {
        let missing = |entry: &Entry| match (entry.input, entry.output) {
            (None, _) => Some("input"),
            (_, None) => Some("output"),
            _ => None,
        };
        self.0.iter().find_map(|(model, entry)| Some((model.as_str(), missing(entry)?)))
    }

    /// Begins the entry of one layer. What an earlier one says stays, except for its date: prices of two sources have none.
    pub(crate) fn open(&mut self, model: &str) {
        self.0.entry(model.to_owned()).or_default().date = None;
    }

    pub(crate) fn set(&mut self, model: &str, field: &str, value: &DeValue<'_>) -> Result<Taken, ValueError> {
        let (entry, given) = (self.0.entry(model.to_owned()).or_default(), Given::Toml(value));
        match field {
            "input" => entry.input = Some(given.money()?),
            "cached" => entry.cached = Some(given.money()?),
            "output" => entry.output = Some(given.money()?),
            "date" => entry.date = Some(given.text()?),
            _ => return Ok(Taken::Unknown(FIELDS)),
        }
        Ok(Taken::Yes)
    }
}

impl Price<'_> {
    /// What so many tokens cost, in dollars. `cached` is a part of `input`.
    pub fn dollars(&self, input: u64, cached: u64, output: u64) -> f64 {
        let parts = [
            (input.saturating_sub(cached), self.input),
            (cached.min(input), self.cached),
            (output, self.output),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1e6
    }

    /// True if nothing has to be counted to know what it costs.
    pub fn is_free(&self) -> bool {
        [self.input, self.cached, self.output].iter().all(|price| *price == 0.0)
    }
}

/// True if `name` is `model` with a date or the like behind it. `gpt-5-pro` is no edition of `gpt-5`, nor `gpt-5.1`.
fn is_edition(name: &str, model: &str) -> bool {
    let Some(rest) = name.strip_prefix(model) else { return false };
    let mut parts = rest.split(['-', '@', ':']);
    // The name goes on without a separator otherwise.
    if parts.next() != Some("") {
        return false;
    }
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let first = parts.next().unwrap_or_default();
    let begins = EDITIONS.contains(&first) || (is_number(first) && first.len() >= MIN_EDITION_DIGITS);
    begins && parts.all(|part| EDITIONS.contains(&part) || is_number(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn editions_of_a_model_have_its_price_and_other_models_do_not() {
        for (name, model) in [
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            ("gpt-5-2025-08-07", "gpt-5"),
            ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
            ("gemini-2.0-flash-001", "gemini-2.0-flash"),
            ("codex-mini-latest", "codex-mini"),
        ] {
            assert!(is_edition(name, model), "{name} {model}");
        }
        for (name, model) in [
            ("gpt-5-pro", "gpt-5"),
            ("gpt-5.1", "gpt-5"),
            ("gpt-5-codex-mini", "gpt-5-codex"),
            ("claude-opus-4-5", "claude-opus-4"),
            ("claude-opus-4-5-20251101", "claude-opus-4"),
            ("gemini-2.5-flash-lite", "gemini-2.5-flash"),
            ("gpt-50", "gpt-5"),
            ("gpt-5-", "gpt-5"),
            ("gpt-5", "gpt-5"),
        ] {
            assert!(!is_edition(name, model), "{name} {model}");
        }
    }

    #[test]
    fn the_longest_name_decides_and_a_very_name_before_all() {
        let entry = |output| Entry { input: Some(0.0), output: Some(output), ..Entry::default() };
        let prices = Prices(BTreeMap::from([
            ("m".to_owned(), entry(1.0)),
            ("m-preview".to_owned(), entry(2.0)),
            ("m-2025-10-10".to_owned(), entry(3.0)),
            ("mine/m".to_owned(), entry(4.0)),
        ]));
        let of = |model| prices.of(model).map(|price| price.output);
        assert_eq!(of("m-2024-10-10"), Some(1.0));
        assert_eq!(of("m-preview-001"), Some(2.0));
        assert_eq!(of("m-2025-10-10"), Some(3.0));
        assert_eq!((of("mine/m"), of("yours/m")), (Some(4.0), Some(1.0)));
        assert_eq!((of("n"), of("")), (None, None));
    }

    #[test]
    fn what_comes_from_a_cache_is_charged_as_such() {
        let price = Price { input: 2.0, cached: 0.5, output: 10.0, date: None };
        assert_eq!(price.dollars(3_000_000, 1_000_000, 500_000), 2.0 * 2.0 + 0.5 + 5.0);
        assert_eq!(price.dollars(1_000_000, 9_000_000, 0), 0.5, "no more than there was");
        let unknown = Entry { input: Some(2.0), output: Some(1.0), ..Entry::default() };
        assert_eq!(
            unknown.price().unwrap().dollars(1_000_000, 1_000_000, 0),
            2.0,
            "as much as any other input"
        );
    }

    #[test]
    fn every_price_that_comes_with_mala_is_whole_and_has_its_date() {
        let prices = Settings::default().prices;
        assert!(prices.0.len() > 20 && prices.incomplete().is_none());
        for (model, entry) in &prices.0 {
            let price = entry.price().unwrap();
            let is_sane = 0.0 < price.cached && price.cached <= price.input && price.input < price.output;
            assert!(is_sane, "{model}: {price:?}");
            let date = price.date.unwrap_or_default();
            assert!(date.len() == 7 && date.starts_with("20"), "{model}: {price:?}");
        }
        for model in ["claude-sonnet-4-5-20250929", "gpt-5.3-codex", "gemini-2.5-pro", "openai/gpt-5-mini"] {
            assert!(prices.of(model).is_some(), "{model}");
        }
    }
}
