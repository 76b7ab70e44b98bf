//! What `mala init` proposes for a repository: a preset and required commands, each with its reason.
//!
//! Only what is there is proposed: a command whose program is not found, or that the project shows no sign of, is named as left
//! out. Looks at a few files; runs nothing.

use std::fs;
use std::path::{Path, PathBuf};

use mala_core::CommandPattern;

use crate::preset::Preset;

/// How deep projects are looked for below the top.
const MAX_DEPTH: usize = 2;
/// Directories that hold no project of their own.
const NOT_PROJECTS: &[&str] =
    &["node_modules", "target", "vendor", "venv", "dist", "build", "docs", "examples", "testdata"];

/// A command that must pass before work lands.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedCommand {
    pub command: CommandPattern,
    /// What in the project speaks for it.
    pub because: String,
    /// Where its program is; nothing if a setup command installs it.
    pub program: Option<PathBuf>,
}

/// What suits a repository, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub preset: Preset,
    /// The file that speaks for the preset.
    pub because: Option<String>,
    pub commands: Vec<ProposedCommand>,
    /// What prepares a checkout for them.
    pub setup: Vec<CommandPattern>,
    /// Commands that would suit and cannot run, and why.
    pub left_out: Vec<(String, String)>,
}

impl Proposal {
    /// For the repository at `root`. `find` says where a program is.
    pub fn of(root: &Path, find: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let mut survey =
            Survey { find, commands: Vec::new(), setup: Vec::new(), left_out: Vec::new(), kinds: Vec::new() };
        survey.look(root, "", 0);
        let Survey { commands, setup, left_out, kinds, .. } = survey;
        // The preset says which commands take turns: that of the top, else that of the first project.
        let (preset, because) = kinds.into_iter().next().unzip();
        // What it requires could not be run either.
        let preset = if commands.is_empty() { Preset::None } else { preset.unwrap_or(Preset::None) };
        // Commands of the project's own take the place of those that the preset brings along.
        let is_presets = setup.iter().all(|(kind, _)| *kind == Some(preset));
        let setup = setup.into_iter().map(|(_, command)| command);
        let setup = if is_presets || commands.is_empty() { Vec::new() } else { setup.collect() };
        Self { preset, because, commands, setup, left_out }
    }

    /// For a preset that a person has chosen: its own commands.
    pub fn for_preset(preset: Preset) -> Self {
        let because = Some("your choice".to_owned());
        Self { preset, because, commands: Vec::new(), setup: Vec::new(), left_out: Vec::new() }
    }

    /// The required commands that differ from those of the preset, to be written down; none if they are the same.
    pub fn own_commands(&self) -> Vec<CommandPattern> {
        let commands: Vec<CommandPattern> = self.commands.iter().map(|one| one.command.clone()).collect();
        if commands == self.preset.required() { Vec::new() } else { commands }
    }
}

struct Survey<'a> {
    find: &'a dyn Fn(&str) -> Option<PathBuf>,
    commands: Vec<ProposedCommand>,
    /// Each with the preset that brings it along.
    setup: Vec<(Option<Preset>, CommandPattern)>,
    left_out: Vec<(String, String)>,
    /// Kinds of projects and the files that say so, those of the top first.
    kinds: Vec<(Preset, String)>,
}

/// A directory of the repository that is looked at.
struct Place<'a> {
    path: &'a Path,
    /// From the top, empty for the top itself.
    name: &'a str,
}

impl Place<'_> {
    fn has(&self, file: &str) -> bool {
        self.path.join(file).is_file()
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap_or_default()
    }

    /// The file as it is called from the top.
    fn file(&self, file: &str) -> String {
        if self.name.is_empty() { file.to_owned() } else { format!("{}/{file}", self.name) }
    }

    fn command(&self, line: &str) -> Option<CommandPattern> {
        let line = if self.name.is_empty() { line.to_owned() } else { format!("cd {} && {line}", self.name) };
        line.parse().ok()
    }
}

impl Survey<'_> {
    fn look(&mut self, path: &Path, name: &str, depth: usize) {
        let place = Place { path, name };
        let before = self.commands.len();
        let is_workspace = self.rust(&place) | self.go(&place);
        self.node(&place);
        self.python(&place);
        if self.commands.len() == before {
            self.task_runner(&place);
        }
        if depth == MAX_DEPTH || is_workspace {
            return;
        }
        let mut below: Vec<String> = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|entry| !entry.starts_with('.') && !NOT_PROJECTS.contains(&entry.as_str()))
            .collect();
        below.sort();
        for entry in below {
            self.look(&path.join(&entry), &place.file(&entry), depth + 1);
        }
    }

    /// Proposes a command if its program is there, else says that it is left out.
    fn propose(&mut self, place: &Place<'_>, line: &str, because: &str) {
        let Some(command) = place.command(line) else { return };
        let name = line.split_whitespace().next().unwrap_or_default();
        match (self.find)(name) {
            Some(program) => {
                let because = place.file(because);
                self.commands.push(ProposedCommand { command, because, program: Some(program) });
            }
            None => self.left_out.push((command.to_string(), format!("`{name}` is not in PATH"))),
        }
    }

    fn rust(&mut self, place: &Place<'_>) -> bool {
        const SIGN: &str = "Cargo.toml";
        if !place.has(SIGN) {
            return false;
        }
        self.kinds.push((Preset::Rust, place.file(SIGN)));
        self.propose(place, "cargo test", SIGN);
        if (self.find)("cargo-clippy").is_some() {
            self.propose(place, "cargo clippy", SIGN);
        } else if let Some(command) = place.command("cargo clippy") {
            self.left_out.push((command.to_string(), "`cargo-clippy` is not in PATH".to_owned()));
        }
        true
    }

    fn go(&mut self, place: &Place<'_>) -> bool {
        const SIGN: &str = "go.mod";
        if !place.has(SIGN) {
            return false;
        }
        self.kinds.push((Preset::Go, place.file(SIGN)));
        self.propose(place, "go test ./...", SIGN);
        self.propose(place, "go vet ./...", SIGN);
        true
    }

    /// The script `test` of a package, by the manager whose lock file is there.
    fn node(&mut self, place: &Place<'_>) {
        const SIGN: &str = "package.json";
        if !place.has(SIGN) {
            return;
        }
        self.kinds.push((Preset::Node, place.file(SIGN)));
        let managers = [
            ("pnpm-lock.yaml", "pnpm", "pnpm install --frozen-lockfile"),
            ("yarn.lock", "yarn", "yarn install --frozen-lockfile"),
            ("package-lock.json", "npm", "npm ci"),
        ];
        let used = managers.into_iter().find(|(lock, ..)| place.has(lock));
        let manager = used.map_or("npm", |(_, manager, _)| manager);
        let line = format!("{manager} test");
        if !has_test_script(&place.text(SIGN)) {
            let why = format!("`{}` has no script `test`", place.file(SIGN));
            self.left_out.extend(place.command(&line).map(|command| (command.to_string(), why)));
            return;
        }
        self.propose(place, &line, SIGN);
        if let Some((_, _, install)) = used {
            self.prepare(place, Preset::Node, install);
        }
    }

    /// The preset prepares the top; what lies below is prepared by a command of its own.
    fn prepare(&mut self, place: &Place<'_>, preset: Preset, line: &str) {
        let preset = Some(preset).filter(|_| place.name.is_empty());
        self.setup.extend(place.command(line).map(|command| (preset, command)));
    }

    fn python(&mut self, place: &Place<'_>) {
        let signs = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini"];
        let Some(sign) = signs.into_iter().find(|sign| place.has(sign)) else { return };
        let project: String =
            ["pyproject.toml", "setup.cfg", "requirements.txt", "requirements-dev.txt", "tox.ini", "uv.lock"]
                .iter()
                .map(|file| place.text(file))
                .collect();
        if place.has("uv.lock") && (self.find)("uv").is_some() {
            return self.python_with_uv(place, &project);
        }
        self.kinds.push((Preset::Python, place.file(sign)));
        let uses_pytest = project.contains("pytest")
            || ["pytest.ini", "conftest.py", "tests/conftest.py"].iter().any(|file| place.has(file));
        let before = self.commands.len();
        if place.has("tox.ini") {
            self.propose(place, "tox", "tox.ini");
        }
        if self.commands.len() > before {
            // It runs the others.
        } else if uses_pytest {
            self.propose(place, "pytest", sign);
        } else if place.path.join("tests").is_dir() {
            self.propose(place, "python3 -m unittest", "tests");
        }
        if place.has("ruff.toml") || project.contains("[tool.ruff") {
            self.propose(place, "ruff check", sign);
        }
    }

    /// What `uv sync` installs need not be in `PATH`.
    fn python_with_uv(&mut self, place: &Place<'_>, project: &str) {
        const SIGN: &str = "uv.lock";
        self.kinds.push((Preset::PythonUv, place.file(SIGN)));
        for (word, tool, line) in [("pytest", "pytest", "pytest"), ("ruff", "ruff", "ruff check")] {
            let is_used = project.contains(word);
            let line = if place.name.is_empty() { line.to_owned() } else { format!("uv run {line}") };
            match place.command(&line) {
                Some(command) if is_used => {
                    self.commands.push(ProposedCommand { command, because: place.file(SIGN), program: None });
                }
                Some(command) => {
                    let why = format!("`{}` does not name `{tool}`", place.file(SIGN));
                    self.left_out.push((command.to_string(), why));
                }
                None => {}
            }
        }
        self.prepare(place, Preset::PythonUv, "uv sync --frozen");
    }

    /// `test` of a Makefile or a justfile, where nothing says more.
    fn task_runner(&mut self, place: &Place<'_>) {
        let runners = [
            ("GNUmakefile", "make test"),
            ("makefile", "make test"),
            ("Makefile", "make test"),
            ("justfile", "just test"),
            ("Justfile", "just test"),
        ];
        for (file, line) in runners {
            let has_test = place.text(file).lines().any(|line| {
                line.strip_prefix("test").is_some_and(|rest| {
                    rest.trim_start().starts_with(':') || (rest.starts_with(' ') && rest.contains(':'))
                })
            });
            if has_test {
                return self.propose(place, line, file);
            }
        }
    }
}

/// True if a package says how it is tested. npm writes a placeholder that always fails.
fn has_test_script(package: &str) -> bool {
    let rest = package.split_once("\"scripts\"").map_or("", |(_, rest)| rest);
    let scripts = rest.split('}').next().unwrap_or_default();
    let test = scripts.split_once("\"test\"").map(|(_, rest)| rest);
    test.is_some_and(|test| !test.split('\n').next().unwrap_or_default().contains("no test specified"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is proposed for these files on a machine with these programs.
    fn proposed(files: &[(&str, &str)], programs: &[&str]) -> Proposal {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let find = |name: &str| programs.contains(&name).then(|| Path::new("/bin").join(name));
        Proposal::of(root.path(), &find)
    }

    fn commands(proposal: &Proposal) -> Vec<String> {
        proposal.commands.iter().map(|one| one.command.to_string()).collect()
    }

    const TEST: &str = r#"{ "scripts": { "lint": "x", "test": "vitest" } }"#;

    #[test]
    fn what_is_proposed_can_run() {
        for (files, programs, preset, expected) in [
            (
                &[("Cargo.toml", "")][..],
                &["cargo", "cargo-clippy"][..],
                "rust",
                &["cargo test", "cargo clippy"][..],
            ),
            (&[("Cargo.toml", "")], &["cargo"], "rust", &["cargo test"]),
            (&[("go.mod", "")], &["go"], "go", &["go test ./...", "go vet ./..."]),
            (&[("package.json", TEST)], &["npm"], "node", &["npm test"]),
            (&[("package.json", TEST), ("pnpm-lock.yaml", "")], &["pnpm"], "node", &["pnpm test"]),
            (&[("package.json", TEST), ("yarn.lock", "")], &["yarn", "npm"], "node", &["yarn test"]),
            (
                &[("pyproject.toml", "[tool.flit]\ntest = ['pytest']")],
                &["pytest", "python3"],
                "python",
                &["pytest"],
            ),
            (
                &[("requirements.txt", "flask\n"), ("tests/x.py", "")],
                &["python3"],
                "python",
                &["python3 -m unittest"],
            ),
            (&[("tox.ini", "")], &["tox", "pytest"], "python", &["tox"]),
            (
                &[("pyproject.toml", "pytest [tool.ruff]"), ("uv.lock", "ruff")],
                &["uv"],
                "python-uv",
                &["pytest", "ruff check"],
            ),
            (&[("Makefile", "test: build\n\ttrue\n")], &["make"], "none", &["make test"]),
            (&[("GNUmakefile", "test:\n")], &["make"], "none", &["make test"]),
            (&[("Cargo.toml", ""), ("Makefile", "test:\n")], &["make"], "rust", &["make test"]),
            (&[("package.json", "{}"), ("justfile", "test:\n")], &["npm", "just"], "node", &["just test"]),
            (&[("setup.py", ""), ("Makefile", "test:\n")], &["python3", "make"], "python", &["make test"]),
            (&[("tox.ini", "deps = pytest")], &["pytest"], "python", &["pytest"]),
            (&[("justfile", "test name='':\n  true\n")], &["just"], "none", &["just test"]),
            (&[("Makefile", "tests:\n")], &["make"], "none", &[]),
            (&[("README.md", "")], &["make"], "none", &[]),
        ] {
            let proposal = proposed(files, programs);
            assert_eq!(
                (proposal.preset.name(), commands(&proposal)),
                (preset, expected.iter().map(ToString::to_string).collect()),
                "{files:?}"
            );
        }
    }

    #[test]
    fn what_cannot_run_is_named_and_not_proposed() {
        let flit =
            proposed(&[("pyproject.toml", "pytest [tool.ruff]"), ("uv.lock", "pytest ruff")], &["python3"]);
        assert_eq!(commands(&flit), [] as [&str; 0]);
        assert_eq!(flit.left_out[0], ("pytest".to_owned(), "`pytest` is not in PATH".to_owned()));
        assert_eq!(flit.left_out.len(), 2);
        let tox = proposed(&[("tox.ini", "deps = pytest")], &["pytest"]);
        assert_eq!(tox.left_out, [("tox".to_owned(), "`tox` is not in PATH".to_owned())]);
        let untested = proposed(
            &[("package.json", r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#)],
            &["npm"],
        );
        assert_eq!(
            untested.left_out,
            [("npm test".to_owned(), "`package.json` has no script `test`".to_owned())]
        );
    }

    #[test]
    fn several_projects_in_one_repository_are_each_tested_where_they_are() {
        let both = proposed(
            &[
                ("server/go.mod", ""),
                ("web/package.json", TEST),
                ("web/package-lock.json", ""),
                ("web/node_modules/x/package.json", TEST),
            ],
            &["go", "npm"],
        );
        assert_eq!(
            commands(&both),
            ["cd server && go test ./...", "cd server && go vet ./...", "cd web && npm test"]
        );
        assert_eq!(both.setup[0].to_string(), "cd web && npm ci");
        assert_eq!((both.preset, both.because.as_deref()), (Preset::Go, Some("server/go.mod")));
        assert_eq!(both.own_commands().len(), 3);
        let top_too = proposed(
            &[
                ("package.json", TEST),
                ("package-lock.json", ""),
                ("api/pyproject.toml", "pytest"),
                ("api/uv.lock", ""),
            ],
            &["npm", "uv"],
        );
        let setup: Vec<String> = top_too.setup.iter().map(ToString::to_string).collect();
        assert_eq!(
            setup,
            ["npm ci", "cd api && uv sync --frozen"],
            "what the preset brings along is among them"
        );
        let second = proposed(&[("go.mod", ""), ("package.json", TEST), ("yarn.lock", "")], &["go", "yarn"]);
        assert_eq!((second.preset, second.setup.len()), (Preset::Go, 1), "no preset but its own prepares it");
        let plain = proposed(&[("package.json", TEST), ("yarn.lock", "")], &["yarn"]);
        assert_eq!(plain.setup, [], "the preset does it");
        let plain = proposed(&[("Cargo.toml", ""), ("crates/a/Cargo.toml", "")], &["cargo", "cargo-clippy"]);
        assert_eq!(plain.own_commands(), [], "the preset says it all, and a workspace is one project");
    }
}
