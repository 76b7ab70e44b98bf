//! Tools that rewrite files in place.

use super::expand::{Arg, Known};
use super::notes::typed;
use super::options;
use super::state::State;
use super::walk::Walker;
use super::writers::syntax;

/// Tools that write in place if one of these options is given. An empty list: always, unless told to only look.
struct Formatter {
    name: &'static str,
    verb: Option<&'static str>,
    writes_with: &'static [&'static str],
    looks_with: &'static [&'static str],
}

const fn formatter(
    name: &'static str,
    verb: Option<&'static str>,
    writes_with: &'static [&'static str],
    looks_with: &'static [&'static str],
) -> Formatter {
    Formatter { name, verb, writes_with, looks_with }
}

const FORMATTERS: &[Formatter] = &[
    formatter("prettier", None, &["write", "w"], &[]),
    formatter("black", None, &[], &["check", "diff", "version"]),
    formatter("isort", None, &[], &["check", "check-only", "c", "diff"]),
    formatter("ruff", Some("format"), &[], &["check", "diff"]),
    formatter("ruff", Some("check"), &["fix", "fix-only", "unsafe-fixes", "add-noqa"], &[]),
    formatter("autopep8", None, &["i", "in-place"], &[]),
    formatter("yapf", None, &["i", "in-place"], &[]),
    formatter("rustfmt", None, &[], &["check", "version"]),
    formatter("gofmt", None, &["w"], &[]),
    formatter("goimports", None, &["w"], &[]),
    formatter("eslint", None, &["fix"], &[]),
    formatter("stylelint", None, &["fix"], &[]),
    formatter("clang-format", None, &["i"], &[]),
    formatter("shfmt", None, &["w", "write"], &[]),
    formatter("biome", Some("format"), &["write"], &[]),
    formatter("biome", Some("check"), &["write", "apply"], &[]),
    formatter("biome", Some("lint"), &["write", "apply"], &[]),
    formatter("taplo", Some("fmt"), &[], &["check", "diff"]),
    formatter("cargo", Some("fmt"), &[], &["check"]),
    formatter("go", Some("fmt"), &[], &["n"]),
    formatter("terraform", Some("fmt"), &[], &["check", "diff"]),
    formatter("mypy", None, &["install-types"], &[]),
    formatter("pyright", None, &["createstub"], &[]),
    formatter("pylint", None, &["output"], &[]),
    formatter("flake8", None, &["output-file"], &[]),
    formatter("shellcheck", None, &["rcfile"], &[]),
    formatter("yq", None, &["i", "inplace"], &[]),
    formatter("xmllint", None, &["output"], &[]),
];

impl Walker<'_> {
    /// Notes what a formatter changes; false if `name` is none.
    pub(super) fn formatter(&mut self, name: &str, args: &[Arg], state: &State) -> bool {
        let mut candidates = FORMATTERS.iter().filter(|formatter| formatter.name == name).peekable();
        if candidates.peek().is_none() {
            return false;
        }
        let verb = args.iter().find(|arg| !arg.text.starts_with('-') && !arg.text.starts_with('+'));
        let fits =
            |formatter: &&Formatter| formatter.verb.is_none_or(|word| verb.is_some_and(|arg| arg.is(word)));
        let Some(tool) = candidates.find(fits) else { return false };
        let options = options::read(
            args,
            syntax("l:c:", &["config", "line-length", "select", "ignore", "edition", "parser"]),
        );
        let writes = match tool.writes_with {
            [] => !options.has(tool.looks_with),
            names => options.has(names) || options.doubtful,
        };
        if !writes {
            return true;
        }
        let skipped = usize::from(tool.verb.is_some());
        let files: Vec<&Arg> = options.operands.iter().copied().skip(skipped).collect();
        if files.is_empty() || matches!(name, "cargo" | "go") || options.doubtful {
            self.unknown(&format!("{name} {}", typed(args)), "it formats files that are not named");
            return true;
        }
        files.into_iter().for_each(|file| self.write_files(file, state));
        true
    }

    /// The file, or the files below it if it is a folder.
    pub(super) fn write_files(&mut self, arg: &Arg, state: &State) {
        if arg.known == Known::All && self.may_be_folder(arg, state) {
            self.write_below(arg, state);
        } else {
            self.write(arg, state);
        }
    }
}
