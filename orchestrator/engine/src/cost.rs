//! What agents cost: what their clients say, else what their tokens come to at the prices that are known. What cannot be known is
//! said, and never taken for nothing: a limit in dollars is refused where it could not bite.

use std::collections::BTreeSet;
use std::ops::AddAssign;

use mala_agents::start::{Kind, Profile};
use mala_agents::stream::Usage;
use mala_config::Prices;
use serde::{Serialize, Serializer};

use crate::error::{EngineError, Result};
use crate::options::Options;

/// How a model is called that nobody has named.
const UNNAMED: &str = "unknown";

/// Dollars that were spent, as far as that is known. In JSON, `cost` is the whole of it or nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cost {
    /// Nothing if nothing was used that costs.
    known: Option<f64>,
    /// Models that were used and have no price.
    unpriced: BTreeSet<String>,
}

impl Cost {
    /// Of one process.
    pub(crate) fn of(usage: &Usage, prices: &Prices) -> Self {
        if usage.cost.is_some() {
            return Self { known: usage.cost, unpriced: BTreeSet::new() };
        }
        let mut cost = Self::default();
        for (model, tokens) in &usage.models {
            match prices.of(model) {
                Some(price) => {
                    let dollars = price.dollars(tokens.input, tokens.cached, tokens.output);
                    cost.known = Some(cost.known.unwrap_or(0.0) + dollars);
                }
                None if model.is_empty() => drop(cost.unpriced.insert(UNNAMED.to_owned())),
                None => drop(cost.unpriced.insert(model.clone())),
            }
        }
        cost
    }

    /// All of it; nothing if a part is not known, or if nothing was used.
    pub fn exact(&self) -> Option<f64> {
        self.known.filter(|_| self.unpriced.is_empty())
    }

    /// The part that is known.
    pub fn at_least(&self) -> f64 {
        self.known.unwrap_or(0.0)
    }

    /// The models whose part is not known.
    pub fn unpriced(&self) -> impl Iterator<Item = &str> {
        self.unpriced.iter().map(String::as_str)
    }
}

impl AddAssign<&Self> for Cost {
    fn add_assign(&mut self, other: &Self) {
        self.known = match (self.known, other.known) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
        };
        self.unpriced.extend(other.unpriced.iter().cloned());
    }
}

impl<'a> FromIterator<&'a Cost> for Cost {
    fn from_iter<I: IntoIterator<Item = &'a Cost>>(costs: I) -> Self {
        costs.into_iter().fold(Self::default(), |mut sum, cost| {
            sum += cost;
            sum
        })
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            cost: Option<f64>,
            unpriced: &'a BTreeSet<String>,
        }
        Fields { cost: self.exact(), unpriced: &self.unpriced }.serialize(serializer)
    }
}

/// A limit in dollars must be able to bite: every profile that issues can get says what it costs, or has a price.
pub(crate) fn check_prices(options: &Options) -> Result<()> {
    for profile in limited(options) {
        let price = profile.model.as_deref().and_then(|model| options.prices.of(model));
        let is_known = match profile.kind {
            // Nobody counts what it uses.
            Kind::Command => price.is_some_and(|price| price.is_free()),
            kind => kind.reports_cost() || price.is_some(),
        };
        if !is_known {
            let (name, model) = (profile.name.clone(), profile.model.clone());
            return Err(EngineError::NoPrice { profile: name, kind: profile.kind, model });
        }
    }
    Ok(())
}

/// Which prices decide about a limit in dollars, where the clients do not say what they cost.
pub(crate) fn estimates(options: &Options) -> Vec<String> {
    let estimated =
        limited(options).filter(|profile| profile.kind.has_model() && !profile.kind.reports_cost());
    let told = estimated.filter_map(|profile| {
        let model = profile.model.as_deref()?;
        let date = options.prices.of(model)?.date?;
        let name = &profile.name;
        Some(format!("what `{name}` costs is computed from its tokens, at the list price of `{model}` of {date} ([price])"))
    });
    told.collect()
}

fn limited(options: &Options) -> impl Iterator<Item = &Profile> {
    let has_limit = |profile: &&Profile| {
        let own = options.profiles.named(&profile.name).and_then(|(_, limits)| limits.cost);
        options.budget.or(own).is_some()
    };
    options.profiles.in_use().filter(has_limit)
}

/// The line for the settings that gives a model its price.
pub(crate) fn price_line(model: &str) -> String {
    let model = toml_key(model);
    format!(
        "add to mala.toml, below [price], its dollars for a million tokens: {model} = {{ input = 2.0, cached = 0.2, output = 10.0 }}"
    )
}

/// A name as TOML takes it for a key.
fn toml_key(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

#[cfg(test)]
mod tests {
    use mala_agents::stream::Tokens;
    use mala_config::Settings;

    use super::*;

    fn usage(cost: Option<f64>, models: &[&str]) -> Usage {
        let tokens = Tokens { input: 1_000_000, cached: 0, output: 0 };
        Usage { models: models.iter().map(|model| ((*model).to_owned(), tokens)).collect(), cost, turns: 1 }
    }

    fn cost(cost: Option<f64>, models: &[&str]) -> Cost {
        Cost::of(&usage(cost, models), &Settings::default().prices)
    }

    #[test]
    fn what_a_client_says_counts_else_its_tokens_do_and_what_has_no_price_is_named() {
        assert_eq!(cost(Some(0.5), &["gpt-5", "nobody-knows"]).exact(), Some(0.5));
        assert_eq!(cost(None, &["gpt-5", "gpt-5-mini"]).exact(), Some(1.5));
        assert_eq!(cost(None, &[]), Cost::default());
        let partly = cost(None, &["gpt-5", "nobody-knows", ""]);
        assert_eq!((partly.exact(), partly.at_least()), (None, 1.25));
        assert_eq!(partly.unpriced().collect::<Vec<_>>(), ["nobody-knows", UNNAMED]);
        let sum: Cost = [&partly, &cost(Some(1.0), &[])].into_iter().collect();
        assert_eq!((sum.exact(), sum.at_least()), (None, 2.25));
        let json = serde_json::json!({ "cost": null, "unpriced": ["nobody-knows", UNNAMED] });
        assert_eq!(serde_json::to_value(&sum).unwrap(), json);
    }

    #[test]
    fn the_line_to_write_is_one_that_is_understood() {
        for model in ["gpt-9", "local/q\"3 \\:8b"] {
            let line = price_line(model);
            let (_, line) = line.split_once("tokens: ").unwrap();
            let settings = mala_config::Sources {
                env: vec![("MALA_PRICE".into(), line.into())],
                ..mala_config::Sources::default()
            };
            assert!(Settings::load(&settings).unwrap().settings.prices.of(model).is_some(), "{line}");
        }
    }
}
