//! What a kind of project brings along, so that most projects need no further settings.

use mala_core::{CommandPattern, LockGroups, LockName};

use crate::settings::{Settings, Word};

/// A kind of project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    None,
    Python,
    PythonUv,
    Rust,
    Node,
    Go,
}

impl Word for Preset {
    const WORDS: &[(&str, Self)] = &[
        ("none", Self::None),
        ("python", Self::Python),
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
    /// Directories of build results and installed dependencies, which git ignores.
    build: &'static [&'static str],
    /// Lock files, and what installs what they name.
    setup: &'static [(&'static str, &'static str)],
    /// A manifest, and the lock files that are made from it.
    groups: &'static [&'static [&'static str]],
}

impl Preset {
    pub const ALL: &[Self] = &[Self::None, Self::Python, Self::PythonUv, Self::Rust, Self::Node, Self::Go];

    /// As it is written in `mala.toml`.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// The commands that it requires.
    pub fn required(self) -> Vec<CommandPattern> {
        patterns(self.lists().required).collect()
    }

    /// The preset of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|(_, preset)| *preset)
    }

    fn lists(self) -> Lists {
        match self {
            Self::None => Lists { guarded: &[], required: &[], build: &[], setup: &[], groups: &[] },
            Self::Python => Lists {
                guarded: &[
                    "pytest",
                    "python -m pytest",
                    "python -m unittest",
                    "pip install",
                    "ruff",
                    "mypy",
                    "tox",
                    "nox",
                ],
                required: &["pytest"],
                build: &[".venv"],
                setup: &[],
                groups: &[],
            },
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
                build: &[".venv"],
                setup: &[("uv.lock", "uv sync --frozen")],
                groups: &[&["pyproject.toml", "uv.lock"]],
            },
            Self::Rust => Lists {
                guarded: &["cargo test", "cargo nextest", "cargo clippy", "cargo bench", "cargo fmt"],
                required: &["cargo test", "cargo clippy"],
                build: &["target"],
                setup: &[],
                groups: &[&["Cargo.toml", "Cargo.lock"]],
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
                build: &["node_modules"],
                setup: &[
                    ("package-lock.json", "npm ci"),
                    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
                    ("yarn.lock", "yarn install --frozen-lockfile"),
                ],
                groups: &[&["package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"]],
            },
            Self::Go => Lists {
                guarded: &["go test", "go vet", "go generate", "golangci-lint run"],
                required: &["go test", "go vet"],
                build: &[],
                setup: &[],
                groups: &[&["go.mod", "go.sum"]],
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
        let equivalents = self.validate.equivalents.iter().flatten().cloned();
        let of_test =
            of_test.chain(self.required()).chain(equivalents).map(|pattern| (LockName::test(), pattern));
        let of_others = self
            .mutexes
            .iter()
            .flat_map(|mutex| mutex.commands.iter().map(|pattern| (mutex.name.clone(), pattern.clone())));
        of_test.chain(of_others).collect()
    }

    /// Every command that a commit must have passed.
    pub fn required(&self) -> Vec<CommandPattern> {
        if self.validate.commands.is_empty() {
            self.project.preset.required()
        } else {
            self.validate.commands.clone()
        }
    }

    /// Directories that a slot keeps from one tree to the next, as patterns of a `.gitignore`.
    pub fn build_directories(&self) -> Vec<String> {
        let of_preset = self.project.preset.lists().build.iter().map(|name| (*name).to_owned());
        of_preset.chain(self.queue.build.iter().map(|path| format!("/{path}"))).collect()
    }

    /// Names of files that are locked together in each directory.
    pub fn lock_groups(&self) -> LockGroups {
        LockGroups::new(self.groups())
    }

    fn groups(&self) -> impl Iterator<Item = Vec<String>> {
        let of_preset = self.project.preset.lists().groups.iter();
        let of_preset = of_preset.map(|group| group.iter().map(|name| (*name).to_owned()).collect());
        let own = self.lock.groups.iter().map(|group| group.split_whitespace().map(str::to_owned).collect());
        of_preset.chain(own)
    }

    /// Lock files at the top of the checkout, and the command that installs what each names. With commands of the project's
    /// own, these run whichever lock file of the preset has changed.
    pub fn setup(&self) -> Setup {
        let of_preset = self.project.preset.lists().setup;
        let lock_files: Vec<String> = of_preset.iter().map(|(file, _)| (*file).to_owned()).collect();
        if self.queue.setup.is_empty() {
            let commands = of_preset.iter().map(|(file, command)| {
                let command = command.parse().expect("a test reads every preset");
                SetupCommand { needs: Some((*file).to_owned()), command }
            });
            return Setup { lock_files, commands: commands.collect() };
        }
        // Lock files of projects below the top lie where their setup runs.
        let directories =
            self.queue.setup.iter().map(CommandPattern::directory).filter(|name| !name.is_empty());
        let names: Vec<&str> =
            Preset::ALL.iter().flat_map(|preset| preset.lists().setup).map(|(file, _)| *file).collect();
        let below =
            directories.flat_map(|directory| names.iter().map(move |file| format!("{directory}/{file}")));
        let lock_files = lock_files.into_iter().chain(below).collect();
        let commands = self.queue.setup.iter().cloned().map(|command| SetupCommand { needs: None, command });
        Setup { lock_files, commands: commands.collect() }
    }
}

/// How a slot is prepared.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// A change of any of them asks for it again.
    pub lock_files: Vec<String>,
    pub commands: Vec<SetupCommand>,
}

/// One command that prepares a slot.
#[derive(Debug, Clone, PartialEq)]
pub struct SetupCommand {
    /// A file without which there is nothing to do.
    pub needs: Option<String>,
    pub command: CommandPattern,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mala_core::Key;

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
            settings.setup();
        }
        assert_eq!(Preset::named("cobol"), None);
    }

    #[test]
    fn groups_of_the_project_come_on_top_of_the_presets() {
        let mut settings = Settings::default();
        settings.project.preset = Preset::Rust;
        settings.lock.groups.push("schema.src schema.lock schema.sum".to_owned());
        let beside = |name: &str| settings.lock_groups().beside(&Key::from_stored(name.as_bytes().to_vec()));
        assert_eq!(beside("Cargo.lock"), [Path::new("Cargo.toml")]);
        assert_eq!(beside("db/schema.lock").len(), 2);
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

    #[test]
    fn what_is_as_good_as_a_required_command_takes_turns_and_is_watched_like_it() {
        let mut settings = Settings::default();
        settings.validate.equivalents =
            vec![["make test", "cargo test"].map(|text| text.parse().unwrap()).into()];
        assert!(settings.guarded().iter().any(|(_, pattern)| pattern.matches(&["make", "test"])));
    }
}
