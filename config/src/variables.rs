//! `[env]` and commands around attempts: texts with what each agent or slot has of its own left open.

use std::collections::BTreeMap;
use std::fmt;

use toml::de::DeValue;

use crate::value::{Given, ValueError};

/// Names that begin so are mala's to give.
const RESERVED: &str = "MALA_";

/// What one agent, or one slot, has that no other one has at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share<'a> {
    /// Stands for `{slot}`.
    pub slot: &'a str,
    /// The first of its ports, for `{port_base}`. Nothing if none were free.
    pub port_base: Option<u16>,
}

/// The variables of `[env]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variables(BTreeMap<String, ShareTemplate>);

impl Variables {
    pub(crate) const NONE: Self = Self(BTreeMap::new());

    pub(crate) fn set(&mut self, name: &str, value: &DeValue<'_>) -> Result<(), ValueError> {
        let is_name = |name: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
            name.bytes().next().is_some_and(is_letter)
                && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
        };
        if !is_name(name) || name.starts_with(RESERVED) {
            return Err(ValueError::NotAVariable { text: name.to_owned() });
        }
        let template = ShareTemplate::parse(&Given::Toml(value).text()?)?;
        self.0.insert(name.to_owned(), template);
        Ok(())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Names and values for `share`, in the order of the names. A variable that needs ports where none are free is an error:
    /// its name.
    pub fn at(&self, share: Share<'_>) -> Result<Vec<(String, String)>, String> {
        let filled = self.0.iter().map(|(name, template)| match template.fill(share) {
            Some(value) => Ok((name.clone(), value)),
            None => Err(name.clone()),
        });
        filled.collect()
    }
}

/// A text with parts to be filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Slot,
    PortBase,
}

impl ShareTemplate {
    /// `{{` and `}}` stand for the braces themselves.
    pub(crate) fn parse(text: &str) -> Result<Self, ValueError> {
        let bad = || ValueError::NotATemplate { text: text.to_owned() };
        let (mut parts, mut literal) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{{") {
                literal.push('{');
                rest = after;
            } else if let Some(after) = rest.strip_prefix("}}") {
                literal.push('}');
                rest = after;
            } else {
                let (name, after) =
                    rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).ok_or_else(bad)?;
                let part = match name {
                    "slot" => Part::Slot,
                    "port_base" => Part::PortBase,
                    _ => return Err(bad()),
                };
                parts.extend((!literal.is_empty()).then(|| Part::Text(std::mem::take(&mut literal))));
                parts.push(part);
                rest = after;
            }
        }
        literal.push_str(rest);
        parts.extend((!literal.is_empty()).then_some(Part::Text(literal)));
        Ok(Self(parts))
    }

    /// Nothing if it needs ports and none were free.
    pub fn fill(&self, share: Share<'_>) -> Option<String> {
        let filled = self.0.iter().map(|part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Slot => Some(share.slot.to_owned()),
            Part::PortBase => Some(share.port_base?.to_string()),
        });
        filled.collect()
    }
}

/// As it was written.
impl fmt::Display for ShareTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}")),
            Part::Slot => f.write_str("{slot}"),
            Part::PortBase => f.write_str("{port_base}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, port_base: Option<u16>) -> Option<String> {
        ShareTemplate::parse(text).unwrap().fill(Share { slot: "3", port_base })
    }

    #[test]
    fn what_is_left_open_is_filled_in_and_braces_can_be_written() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("postgres:///app_{slot}", "postgres:///app_3"),
            ("{slot}{slot} on {port_base}", "33 on 20050"),
            ("{{slot}}", "{slot}"),
            ("{{{slot}}}", "{3}"),
            ("a}}b", "a}b"),
        ] {
            assert_eq!(filled(text, Some(20_050)).as_deref(), Some(expected), "{text}");
            let written = ShareTemplate::parse(text).unwrap().to_string();
            assert_eq!(filled(&written, Some(20_050)).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_nobody_has_is_named_when_it_is_read() {
        for text in ["{agent}", "{", "}", "{slot", "slot}", "{}", "{ slot }", "{{slot}"] {
            let error = ShareTemplate::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("{slot}"), "{error}");
        }
    }

    #[test]
    fn without_free_ports_only_what_needs_some_is_missing() {
        assert_eq!(filled("app_{slot}", None).as_deref(), Some("app_3"));
        assert_eq!(filled("{port_base}", None), None);
        let mut variables = Variables::default();
        variables.0.insert("PORT".to_owned(), ShareTemplate::parse("{port_base}").unwrap());
        assert_eq!(variables.at(Share { slot: "1", port_base: None }), Err("PORT".to_owned()));
    }
}
