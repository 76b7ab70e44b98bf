//! One file as a layer: reads it, takes its TOML apart, and hands each value on with its place.

use std::io;
use std::path::Path;

use mala_core::file::{SETTINGS, read_small_text};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::error::Problem;
use crate::key::{Key, sections};
use crate::place::{Document, Origin, Place};
use crate::resolver::Resolver;
use crate::tables::{self, Taken, legal};
use crate::value::Given;
use crate::warning::Warning;

type Name<'i> = Spanned<DeString<'i>>;
type Value<'i> = Spanned<DeValue<'i>>;

/// A file that was read.
#[derive(Debug)]
pub(crate) struct FileLayer {
    document: Document,
    origin: fn(Place) -> Origin,
}

impl FileLayer {
    pub(crate) fn new(name: &str, text: String, origin: fn(Place) -> Origin) -> Self {
        Self { document: Document::new(name, text), origin }
    }

    /// Reads a file; `None` if there is none.
    pub(crate) fn read(path: &Path, origin: fn(Place) -> Origin) -> Result<Option<Self>, Box<Problem>> {
        match read_small_text(path, SETTINGS) {
            Ok(text) => Ok(Some(Self::new(&path.to_string_lossy(), text, origin))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(source) => Err(Box::new(Problem::Unreadable { path: path.to_owned(), source })),
        }
    }

    /// Sets everything that the file sets.
    pub(crate) fn apply(&self, resolver: &mut Resolver) {
        match DeTable::parse(self.document.text()) {
            Ok(table) => {
                for (name, value) in in_file_order(table.get_ref()) {
                    self.section(resolver, name, value);
                }
            }
            Err(error) => {
                let place = self.document.place(error.span().unwrap_or_default());
                resolver.reject(Problem::Syntax { message: error.message().to_owned(), place });
            }
        }
    }

    fn section(&self, resolver: &mut Resolver, name: &Name<'_>, value: &Value<'_>) {
        let section = name.get_ref();
        if tables::SECTIONS.contains(&&**section) {
            return self.named_tables(resolver, section, value);
        }
        if &**section == tables::VARIABLES {
            return self.variables(resolver, value);
        }
        let known = sections().contains(&&**section);
        match (known, value.get_ref()) {
            (true, DeValue::Table(entries)) => {
                for (name, value) in in_file_order(entries) {
                    self.setting(resolver, section, (name, value));
                }
            }
            (true, _) => {
                let place = self.document.place(value.span());
                resolver.reject(Problem::NotASection { section: section.to_string(), place });
            }
            (false, DeValue::Table(entries)) if has_renamed(section, entries) => {
                for (name, value) in in_file_order(entries) {
                    self.setting(resolver, section, (name, value));
                }
            }
            (false, DeValue::Table(_)) => resolver.warn(Warning::Section {
                name: section.to_string(),
                place: self.document.place(name.span()),
            }),
            (false, _) => resolver.warn(Warning::Setting {
                name: section.to_string(),
                place: self.document.place(name.span()),
            }),
        }
    }

    /// `[mutex.NAME]` and the like.
    fn named_tables(&self, resolver: &mut Resolver, section: &str, value: &Value<'_>) {
        let not_a_section = |value: &Value<'_>, section: String| Problem::NotASection {
            section,
            place: self.document.place(value.span()),
        };
        let DeValue::Table(tables) = value.get_ref() else {
            return resolver.reject(not_a_section(value, format!("{section}.NAME")));
        };
        for (name, value) in in_file_order(tables) {
            let table = format!("{section}.{}", name.get_ref());
            let DeValue::Table(fields) = value.get_ref() else {
                resolver.reject(not_a_section(value, table));
                continue;
            };
            if let Err(reason) = resolver.tables().open_table(section, name.get_ref()) {
                let (legal, place) = ("a printable name".to_owned(), self.document.place(name.span()));
                resolver.reject(Problem::Field { name: table, legal, place, reason });
                continue;
            }
            for (field, value) in in_file_order(fields) {
                self.field(resolver, (section, name.get_ref()), (field, value));
            }
        }
    }

    /// `[env]`
    fn variables(&self, resolver: &mut Resolver, value: &Value<'_>) {
        let DeValue::Table(entries) = value.get_ref() else {
            let place = self.document.place(value.span());
            return resolver.reject(Problem::NotASection { section: tables::VARIABLES.to_owned(), place });
        };
        for (name, value) in in_file_order(entries) {
            if let Err(reason) = resolver.tables().env.set(name.get_ref(), value.get_ref()) {
                resolver.reject(Problem::Field {
                    name: format!("{}.{}", tables::VARIABLES, name.get_ref()),
                    legal: "a text such as \"postgres:///app_{slot}\"".to_owned(),
                    place: self.document.place(value.span()),
                    reason,
                });
            }
        }
    }

    fn field(
        &self,
        resolver: &mut Resolver,
        (section, table): (&str, &str),
        (field, value): (&Name<'_>, &Value<'_>),
    ) {
        let name = format!("{section}.{table}.{}", field.get_ref());
        match resolver.tables().set_field((section, table), field.get_ref(), value.get_ref()) {
            Ok(Taken::Yes) => {}
            Ok(Taken::Unknown(known)) => {
                let place = self.document.place(field.span());
                resolver.warn(Warning::Field { name, known, place });
            }
            Err(reason) => {
                let (legal, place) = (legal(section, field.get_ref()), self.document.place(value.span()));
                resolver.reject(Problem::Field { name, legal, place, reason });
            }
        }
    }

    fn setting(&self, resolver: &mut Resolver, section: &str, (name, value): (&Name<'_>, &Value<'_>)) {
        let dotted = format!("{section}.{}", name.get_ref());
        match Key::find(&dotted) {
            Some(key) => {
                let place = self.document.place(value.span());
                resolver.set(key, &Given::Toml(value.get_ref()), (self.origin)(place));
            }
            None => match Key::renamed(&dotted) {
                Some(key) => {
                    let place = Some(self.document.place(name.span()));
                    resolver.warn(Warning::Renamed { name: dotted, key, place });
                    let place = self.document.place(value.span());
                    resolver.set(key, &Given::Toml(value.get_ref()), (self.origin)(place));
                }
                None => {
                    resolver.warn(Warning::Setting { name: dotted, place: self.document.place(name.span()) });
                }
            },
        }
    }
}

fn has_renamed(section: &str, entries: &DeTable<'_>) -> bool {
    entries.iter().any(|(name, _)| Key::renamed(&format!("{section}.{}", name.get_ref())).is_some())
}

/// A path through something that is not a directory leads to no file, as with `HOME=/dev/null`.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The parser sorts by name; people read from top to bottom.
fn in_file_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a Name<'i>, &'a Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}
