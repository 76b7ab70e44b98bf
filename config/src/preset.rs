//! What a kind of project brings along, so that most projects need no further settings.

use mala_core::{CommandPattern, LockName};

use crate::settings::{Settings, Word};

/// A kind of project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    None,
    PythonUv,
    Rust,
    Node,
    Go,
}

impl Word for Preset {
    const WORDS: &[(&str, Self)] = &[
        ("none", Self::None),
        ("python-uv", Self::PythonUv),
        ("rust", Self::Rust),
        ("node", Self::Node),
        ("go", Self::Go),
    ];
}

/// The lists of one preset.
struct Lists {
    /// Commands that take turns: they test, or they change what others test with.
    guarded: &'static [&'static str],
    /// Commands that a commit must have passed.
    required: &'static [&'static str],
    /// Folders that tests need and git ignores.
    shared: &'static [&'static str],
}

impl Preset {
    pub const ALL: &[Self] = &[Self::None, Self::PythonUv, Self::Rust, Self::Node, Self::Go];

    /// As it is written in `mala.toml`.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// The preset of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|(_, preset)| *preset)
    }

    fn lists(self) -> Lists {
        match self {
            Self::None => Lists { guarded: &[], required: &[], shared: &[] },
            Self::PythonUv => Lists {
                guarded: &[
                    "pytest",
                    "python -m pytest",
                    "python -m unittest",
                    "uv run pytest",
                    "uv sync",
                    "uv add",
                    "uv pip install",
                    "pip install",
                    "ruff",
                    "mypy",
                    "ty check",
                    "tox",
                    "nox",
                ],
                required: &["pytest", "ruff check"],
                shared: &[".venv"],
            },
            Self::Rust => Lists {
                guarded: &["cargo test", "cargo nextest", "cargo clippy", "cargo bench", "cargo fmt"],
                required: &["cargo test", "cargo clippy"],
                shared: &["target"],
            },
            Self::Node => Lists {
                guarded: &[
                    "npm test",
                    "npm t",
                    "npm run test",
                    "npm run lint",
                    "npm ci",
                    "npm install",
                    "npm i",
                    "pnpm test",
                    "pnpm install",
                    "yarn test",
                    "yarn install",
                    "jest",
                    "vitest",
                    "mocha",
                    "eslint",
                    "tsc",
                ],
                required: &["npm test"],
                shared: &["node_modules"],
            },
            Self::Go => Lists {
                guarded: &["go test", "go vet", "go generate", "golangci-lint run"],
                required: &["go test", "go vet"],
                shared: &[],
            },
        }
    }
}

fn patterns(texts: &[&str]) -> impl Iterator<Item = CommandPattern> {
    texts.iter().map(|text| text.parse().expect("a test reads every preset"))
}

impl Settings {
    /// Every command that takes turns, with the mutex it waits for.
    pub fn guarded(&self) -> Vec<(LockName, CommandPattern)> {
        let lists = self.project.preset.lists();
        let of_test = patterns(lists.guarded).chain(self.test.commands.iter().cloned());
        let of_test = of_test.chain(self.required()).map(|pattern| (LockName::test(), pattern));
        let of_others = self
            .mutexes
            .iter()
            .flat_map(|mutex| mutex.commands.iter().map(|pattern| (mutex.name.clone(), pattern.clone())));
        of_test.chain(of_others).collect()
    }

    /// Every command that a commit must have passed.
    pub fn required(&self) -> Vec<CommandPattern> {
        if self.validate.commands.is_empty() {
            patterns(self.project.preset.lists().required).collect()
        } else {
            self.validate.commands.clone()
        }
    }

    /// Folders that isolated tests share with the checkout.
    pub fn shared_folders(&self) -> Vec<String> {
        let of_preset = self.project.preset.lists().shared.iter().map(|folder| (*folder).to_owned());
        of_preset.chain(self.isolated.share.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_read_and_is_found_by_its_name() {
        for preset in Preset::ALL {
            assert_eq!(Preset::named(preset.name()), Some(*preset));
            let mut settings = Settings::default();
            settings.project.preset = *preset;
            let (guarded, required) = (settings.guarded(), settings.required());
            let is_guarded = |command: &CommandPattern| guarded.iter().any(|(_, other)| other == command);
            assert!(required.iter().all(is_guarded), "what is required is watched");
            assert_eq!(required.is_empty(), *preset == Preset::None);
        }
        assert_eq!(Preset::named("cobol"), None);
    }

    #[test]
    fn commands_of_the_project_come_on_top_and_required_ones_replace_the_presets() {
        let mut settings = Settings::default();
        settings.project.preset = Preset::Rust;
        settings.test.commands.push("make check".parse().unwrap());
        settings.validate.commands.push("make check".parse().unwrap());
        assert_eq!(settings.required().len(), 1);
        let guarded = settings.guarded();
        let matches = |line: &[&str]| guarded.iter().any(|(_, pattern)| pattern.matches(line));
        assert!(matches(&["make", "check"]) && matches(&["cargo", "test"]));
        assert!(!matches(&["make"]) && !matches(&["cargo", "build"]));
    }
}
