//! Prompts: readable files with `{{name}}` where something is filled in.
//!
//! The built-in ones are in `agents/prompts/`. Whoever brings their own may leave places out, but a place that does not
//! exist is an error: it would reach the agent as nonsense. What is filled in is never looked at again, so an issue
//! that contains `{{notes}}` stays as it is.

use std::fmt::Write as _;

use thiserror::Error;

/// Which prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Begins an attempt.
    Task,
    /// Says what the gate found missing.
    Retry,
    /// Goes on after a pause.
    Continue,
}

impl Which {
    pub const ALL: [Self; 3] = [Self::Task, Self::Retry, Self::Continue];

    /// The name of its file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Task => "task.md",
            Self::Retry => "retry.md",
            Self::Continue => "continue.md",
        }
    }

    fn built_in(self) -> &'static str {
        match self {
            Self::Task => include_str!("../../prompts/task.md"),
            Self::Retry => include_str!("../../prompts/retry.md"),
            Self::Continue => include_str!("../../prompts/continue.md"),
        }
    }

    fn places(self) -> &'static [&'static str] {
        match self {
            Self::Task => &[
                "id",
                "title",
                "description",
                "design",
                "acceptance",
                "files",
                "notes",
                "agent",
                "root",
                "mark",
                "required",
                "mala",
            ],
            Self::Retry => &["id", "checks", "mark", "round", "rounds"],
            Self::Continue => &["id", "why"],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    #[error("line {line} has the place `{{{{{name}}}}}`, which {file} does not know; it knows {known}")]
    Unknown { file: &'static str, name: String, line: usize, known: String },
    #[error("line {line} begins a place with `{{{{` that does not end; write `{{{{name}}}}`")]
    Open { line: usize },
}

/// A prompt with places to fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(String),
}

impl Template {
    pub fn built_in(which: Which) -> Self {
        Self::parse(which, which.built_in()).expect("a test parses every built-in prompt")
    }

    pub fn parse(which: Which, text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let line = || text[..text.len() - after.len()].lines().count();
            let (name, after) = after.split_once("}}").ok_or_else(|| TemplateError::Open { line: line() })?;
            if !which.places().contains(&name) {
                let known = which.places().join(", ");
                return Err(TemplateError::Unknown {
                    file: which.file(),
                    name: name.to_owned(),
                    line: line(),
                    known,
                });
            }
            parts.extend([Part::Text(before.to_owned()), Part::Place(name.to_owned())]);
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self { parts })
    }

    /// The prompt. Places without a value stay empty, and more than one empty line becomes one.
    pub fn fill(&self, values: &[(&str, &str)]) -> String {
        let mut filled = String::new();
        for part in &self.parts {
            let text = match part {
                Part::Text(text) => text.as_str(),
                Part::Place(name) => {
                    values.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim_end())
                }
            };
            if text.starts_with('\n') && filled.ends_with("\n\n") {
                filled.push_str(text.trim_start_matches('\n'));
            } else {
                filled.push_str(text);
            }
        }
        filled
    }
}

/// A section with a heading, or nothing if there is no text.
pub fn section(heading: &str, text: &str) -> String {
    let mut section = String::new();
    if !text.trim().is_empty() {
        write!(section, "\n## {heading}\n\n{}\n", text.trim()).expect("writing to a string cannot fail");
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_prompts_use_every_place_they_have() {
        for which in Which::ALL {
            let template = Template::built_in(which);
            for place in which.places() {
                let used = template.parts.contains(&Part::Place((*place).to_owned()));
                assert!(used, "{} does not use {place}", which.file());
            }
        }
    }

    #[test]
    fn what_is_filled_in_is_not_looked_at_again() {
        let template = Template::parse(Which::Continue, "{{id}}: {{why}}!").unwrap();
        assert_eq!(template.fill(&[("id", "{{why}}"), ("why", "x")]), "{{why}}: x!");
    }

    #[test]
    fn an_unknown_place_is_refused_with_its_line() {
        let error = Template::parse(Which::Continue, "a\nb {{title}}").unwrap_err().to_string();
        assert_eq!(
            error,
            "line 2 has the place `{{title}}`, which continue.md does not know; it knows id, why"
        );
        let error = Template::parse(Which::Continue, "{{id").unwrap_err().to_string();
        assert_eq!(error, "line 1 begins a place with `{{` that does not end; write `{{name}}`");
    }

    #[test]
    fn empty_places_leave_no_holes() {
        let template = Template::parse(Which::Task, "a\n\n{{design}}\n{{files}}\n\nb\n").unwrap();
        assert_eq!(template.fill(&[]), "a\n\nb\n");
        assert_eq!(template.fill(&[("files", &section("Files", "x"))]), "a\n\n## Files\n\nx\n\nb\n");
    }
}
