//! Applies layers one over the other and collects what is wrong and what is odd about them.
//!
//! Call order is layer order: each call overrides the values of the calls before it. A layer that is wrong does
//! not stop the next one, so that a person sees everything at once.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::DEFAULTS;
use crate::duration::format_duration;
use crate::error::{ConfigError, Problem};
use crate::file::FileLayer;
use crate::key::{Key, variable_to_dotted};
use crate::load::{Loaded, Override};
use crate::place::{Origin, Place};
use crate::settings::Settings;
use crate::value::{Given, ValueError};
use crate::warning::Warning;

/// The variable with prices of models. Other tables have names of the user's own, and no variable.
const PRICES: &str = "MALA_PRICE";

/// The settings so far.
#[derive(Debug)]
pub(crate) struct Resolver {
    settings: Settings,
    /// One for each line of the table, in its order.
    origins: Vec<Origin>,
    warnings: Vec<Warning>,
    problems: Vec<Problem>,
}

impl Resolver {
    /// Starts with layer zero. It goes through the same code as any other file.
    pub(crate) fn with_defaults() -> Self {
        let mut resolver = Self {
            settings: Settings::BLANK,
            origins: vec![Origin::Default; Key::all().count()],
            warnings: Vec::new(),
            problems: Vec::new(),
        };
        FileLayer::new("defaults.toml", DEFAULTS.to_owned(), |_| Origin::Default).apply(&mut resolver);
        resolver
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// Applies a file, if there is one.
    pub(crate) fn file(&mut self, path: Option<&Path>, origin: fn(Place) -> Origin) {
        let Some(path) = path else { return };
        match FileLayer::read(path, origin) {
            Ok(Some(layer)) => layer.apply(self),
            Ok(None) => {}
            Err(problem) => self.reject(*problem),
        }
    }

    /// Applies the variables that are settings. Others that start with `MALA_` are somebody else's business, unless
    /// they start like the settings of a section.
    pub(crate) fn environment(&mut self, variables: &[(OsString, OsString)]) {
        let ours = |name: &OsStr| name.as_encoded_bytes().starts_with(b"MALA_");
        for (name, value) in variables.iter().filter(|(name, _)| ours(name)) {
            let name = name.to_string_lossy();
            if let Some((key, old)) = Key::renamed_variable(&name) {
                self.warn(Warning::Renamed { name: old.to_owned(), key, place: None });
                self.set_variable(key, value);
                continue;
            }
            if name == PRICES {
                self.price_variable(value);
                continue;
            }
            let Some(dotted) = variable_to_dotted(&name) else { continue };
            match Key::find(&dotted).filter(|key| key.variable() == name) {
                Some(key) => self.set_variable(key, value),
                None => self.warn(Warning::Variable { name: name.into_owned(), dotted }),
            }
        }
    }

    /// Prices of single models, as they would stand in an inline table.
    fn price_variable(&mut self, value: &OsStr) {
        let table = format!("price = {{ {} }}", value.to_string_lossy());
        FileLayer::new(PRICES, table, |_| Origin::Environment(PRICES.to_owned())).apply(self);
    }

    fn set_variable(&mut self, key: Key, value: &OsStr) {
        let origin = Origin::Environment(key.variable());
        match value.to_str() {
            Some(text) => self.set(key, &Given::Text(text), origin),
            None => {
                let reason = ValueError::NotUtf8 { text: value.to_string_lossy().into_owned() };
                self.reject(Problem::Value { key, origin, reason });
            }
        }
    }

    /// Applies what was typed. Here an unknown name is an error: somebody asked for it right now.
    pub(crate) fn arguments(&mut self, overrides: &[Override]) {
        for Override { key: name, value, typed } in overrides {
            match Key::find(name).or_else(|| Key::renamed(name)) {
                Some(key) => self.set(key, &Given::Text(value), Origin::Argument(typed.clone())),
                None => self.reject(Problem::UnknownSetting { name: name.clone(), typed: typed.clone() }),
            }
        }
    }

    /// Sets one value, or notes why not.
    pub(crate) fn set(&mut self, key: Key, given: &Given<'_>, origin: Origin) {
        match key.setting().set(&mut self.settings, given) {
            Ok(()) => self.origins[key.index()] = origin,
            Err(reason) => self.reject(Problem::Value { key, origin, reason }),
        }
    }

    /// The settings, for tables with names of the user's own.
    pub(crate) fn tables(&mut self) -> &mut Settings {
        &mut self.settings
    }

    pub(crate) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    pub(crate) fn reject(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// The result, if everything fits together.
    pub(crate) fn finish(mut self) -> Result<Loaded, ConfigError> {
        // A value that was refused has left an older one in place; comparing that would only confuse.
        if self.problems.is_empty() {
            self.check_ttl();
            self.check_prices();
        }
        ConfigError::check(self.problems)?;
        Ok(Loaded { settings: self.settings, warnings: self.warnings, origins: self.origins })
    }

    fn check_ttl(&mut self) {
        let lock = &self.settings.lock;
        if lock.ttl > lock.max_ttl {
            self.reject(Problem::TtlOverMax {
                ttl: format_duration(lock.ttl),
                ttl_origin: self.origin("lock.ttl"),
                max: format_duration(lock.max_ttl),
                max_origin: self.origin("lock.max_ttl"),
            });
        }
    }

    fn check_prices(&mut self) {
        if let Some((model, missing)) = self.settings.prices.incomplete() {
            let model = model.to_owned();
            self.reject(Problem::HalfAPrice { model, missing });
        }
    }

    fn origin(&self, dotted: &str) -> Origin {
        Key::find(dotted).map_or(Origin::Default, |key| self.origins[key.index()].clone())
    }
}
