//! What a tool takes: declared once, told to clients as a schema, and held against what comes.

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

/// One argument of a tool.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) need: Need,
    pub(super) about: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Texts,
    Flag,
    Number,
    OneOf(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
}

pub(super) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, need: Need::Required, about }
}

pub(super) const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, need: Need::Optional, about }
}

/// The schema that clients are shown.
pub(super) fn schema(fields: &[Field]) -> JsonObject {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), field.schema())).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| field.need == Need::Required).map(|field| field.name).collect();
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

impl Field {
    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Number => json!({ "type": "integer" }),
            Kind::OneOf(words) => json!({ "type": "string", "enum": words }),
        };
        if !self.about.is_empty() {
            schema["description"] = json!(self.about);
        }
        schema
    }

    /// Says what is wrong with a value, if anything is.
    fn objection(&self, value: &Value) -> Option<String> {
        let is_right = match (self.kind, value) {
            (Kind::Text, Value::String(_)) | (Kind::Flag, Value::Bool(_)) => true,
            (Kind::Texts, Value::Array(items)) => items.iter().all(Value::is_string),
            (Kind::Number, Value::Number(number)) => number.is_i64() || number.is_u64(),
            (Kind::OneOf(words), Value::String(word)) => words.contains(&word.as_str()),
            _ => false,
        };
        let wanted = match self.kind {
            Kind::Text => "a text".to_owned(),
            Kind::Texts => "a list of texts".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Number => "a whole number".to_owned(),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
        };
        (!is_right).then(|| format!("`{}` must be {wanted}, not {}", self.name, shown(value)))
    }
}

/// A wrong value, short enough to be read.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

/// The arguments of a call, known to fit their fields.
#[derive(Debug)]
pub(super) struct Arguments(JsonObject);

impl Arguments {
    /// Holds what came against the fields; everything that is wrong is said at once. A null is as good as nothing.
    pub(super) fn check(fields: &[Field], given: Option<JsonObject>) -> Result<Self, String> {
        let mut given = given.unwrap_or_default();
        given.retain(|_, value| !value.is_null());
        let known = || fields.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ");
        let strangers = given
            .keys()
            .filter(|name| fields.iter().all(|field| field.name != name.as_str()))
            .map(|name| format!("there is no argument {}; there are {}", shown(&json!(name)), known()));
        let wrong = fields.iter().filter_map(|field| match given.get(field.name) {
            Some(value) => field.objection(value),
            None if field.need == Need::Required => Some(format!("`{}` is missing", field.name)),
            None => None,
        });
        let objections: Vec<String> = strangers.chain(wrong).collect();
        if objections.is_empty() { Ok(Self(given)) } else { Err(objections.join("; ")) }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    pub(super) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }
}
