//! The options of the programs that are here, as their own help names them.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Programs whose options are tried. A name of two words is a command of a program.
const PROGRAMS: &[&str] = &[
    "awk",
    "base64",
    "basename",
    "bc",
    "bzip2",
    "cat",
    "cksum",
    "cmp",
    "column",
    "comm",
    "cp",
    "curl",
    "cut",
    "date",
    "dd",
    "df",
    "diff",
    "dirname",
    "du",
    "ed",
    "env",
    "expand",
    "expr",
    "file",
    "find",
    "fmt",
    "fold",
    "free",
    "getent",
    "grep",
    "gzip",
    "head",
    "hexdump",
    "iconv",
    "id",
    "install",
    "join",
    "jq",
    "less",
    "ln",
    "ls",
    "lsof",
    "man",
    "md5sum",
    "mkdir",
    "mktemp",
    "mv",
    "nice",
    "nl",
    "nm",
    "nohup",
    "numfmt",
    "objdump",
    "od",
    "paste",
    "patch",
    "perl",
    "pr",
    "printenv",
    "printf",
    "ps",
    "readelf",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "rm",
    "rsync",
    "scp",
    "sed",
    "seq",
    "setsid",
    "sha256sum",
    "shuf",
    "size",
    "sort",
    "split",
    "ssh",
    "stat",
    "stdbuf",
    "strings",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "time",
    "timeout",
    "touch",
    "tr",
    "tree",
    "truncate",
    "tsort",
    "unexpand",
    "uniq",
    "wc",
    "which",
    "who",
    "xargs",
    "xxd",
    "xz",
    "zcat",
    "zgrep",
    "zstd",
    "batcat",
    "fdfind",
    "gawk",
    "make",
    "node",
    "parallel",
    "sponge",
    "sqlite3",
    "vim",
    "zsh",
    "yq",
    "git add",
    "git blame",
    "git branch",
    "git cat-file",
    "git describe",
    "git diff",
    "git fetch",
    "git for-each-ref",
    "git grep",
    "git log",
    "git ls-files",
    "git ls-tree",
    "git mv",
    "git remote",
    "git rev-list",
    "git rev-parse",
    "git rm",
    "git shortlog",
    "git show",
    "git status",
    "git tag",
    "git archive",
    "git format-patch",
    "git config",
    "git restore",
    "git hash-object",
    "git ls-remote",
    "git clone",
    "git notes list",
    "git worktree list",
];

/// A program with its options, each as it is typed; one that takes a value ends in `=`.
pub(super) struct Manual {
    pub(super) program: &'static str,
    pub(super) options: Vec<String>,
}

pub(super) fn is_here(program: &str) -> bool {
    let name = program.split(' ').next().unwrap_or(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

pub(super) fn missing_programs() -> Vec<&'static str> {
    // The shell has them built in.
    PROGRAMS.iter().copied().filter(|program| !is_here(program) && *program != "time").collect()
}

fn help(program: &str) -> String {
    let mut words = program.split(' ');
    let mut command = Command::new("timeout");
    command.arg("5").args(words.by_ref());
    command.arg(if program.starts_with("git ") { "-h" } else { "--help" });
    command.current_dir("/").stdin(Stdio::null());
    let output = command.output().expect("`timeout` is part of coreutils");
    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
}

/// `-x`, `--long`, `--long=VALUE`, `--[no-]long`, wherever they stand.
fn options(text: &str) -> BTreeSet<String> {
    let text = text.replace("[no-]", "");
    let words = text.split(|char: char| char.is_whitespace() || ",|()<>".contains(char));
    let options = words.filter_map(|word| {
        let word = word.trim_start_matches('[');
        let end =
            word.find(|char: char| !(char.is_ascii_alphanumeric() || char == '-')).unwrap_or(word.len());
        let name = &word[..end];
        let is_option = name.trim_start_matches('-').starts_with(|char: char| char.is_ascii_alphanumeric());
        let takes_value = word[end..].trim_start_matches('[').starts_with('=');
        (name.starts_with('-') && is_option && name.len() < 30)
            .then(|| if takes_value { format!("{name}=") } else { name.to_owned() })
    });
    options.collect()
}

pub(super) static MANUALS: LazyLock<Vec<Manual>> = LazyLock::new(|| {
    let here = PROGRAMS.iter().filter(|program| is_here(program));
    here.map(|program| Manual { program, options: options(&help(program)).into_iter().collect() }).collect()
});
