//! Git's settings as its files say them, read without git: for what must be known of another process's git before it starts.
//!
//! The format is `git-config(1)`'s. Includes that depend on a condition count as if it held: what is asked here is what a git
//! could be told, and a setting too many makes nobody's git do more.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mala_core::file::{SETTINGS, read_small};

/// Git follows no more (`MAX_INCLUDE_DEPTH`).
const MAX_INCLUDE_DEPTH: usize = 10;
/// Where git looks for the settings of the machine.
const SYSTEM_FILE: &str = "/etc/gitconfig";

/// Settings in the order in which git reads them: the last one counts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SettingsList {
    /// Section and name in lower case, the part between them as it is: `alias.co`, `branch.Main.remote`.
    all: Vec<(String, String)>,
}

impl SettingsList {
    /// What a git reads whose environment `variable` gives, in a repository whose own settings are in `local`.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>, local: &[PathBuf]) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut files = Vec::new();
        if !set("GIT_CONFIG_NOSYSTEM").is_some_and(|value| is_true(&value.to_string_lossy())) {
            files.push(variable("GIT_CONFIG_SYSTEM").map_or_else(|| SYSTEM_FILE.into(), PathBuf::from));
        }
        let home = set("HOME").map(PathBuf::from);
        match variable("GIT_CONFIG_GLOBAL") {
            Some(file) => files.push(file.into()),
            None => {
                let other = set("XDG_CONFIG_HOME").map(PathBuf::from);
                let other = other.or_else(|| Some(home.as_ref()?.join(".config")));
                files.extend(other.map(|other| other.join("git/config")));
                files.extend(home.as_ref().map(|home| home.join(".gitconfig")));
            }
        }
        let mut list = Self::default();
        for file in files.iter().chain(local) {
            list.read(file, home.as_deref(), MAX_INCLUDE_DEPTH);
        }
        list.all.extend(given(variable));
        list
    }

    pub fn last(&self, key: &str) -> Option<&str> {
        self.all.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// What a command that git does not have stands for.
    pub fn alias(&self, name: &str) -> Option<String> {
        let text = self
            .last(&format!("alias.{name}.command"))
            .or_else(|| self.last(&format!("alias.{}", name.to_ascii_lowercase())));
        text.map(str::to_owned)
    }

    /// A file that cannot be read says nothing: git does not start then, or leaves it out.
    fn read(&mut self, file: &Path, home: Option<&Path>, depth: usize) {
        let Ok(text) = read_small(file, SETTINGS) else { return };
        for (name, value) in parsed(&String::from_utf8_lossy(&text)) {
            let is_include =
                name == "include.path" || name.starts_with("includeif.") && name.ends_with(".path");
            if is_include && depth > 0 {
                let path = match (value.strip_prefix("~/"), home) {
                    (Some(rest), Some(home)) => home.join(rest),
                    _ => file.with_file_name(&value),
                };
                self.read(&path, home, depth - 1);
            }
            self.all.push((name, value));
        }
    }
}

/// The settings that git is given by its environment, as `key` and value.
pub fn given(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(String, String)> {
    let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
    let mut found = Vec::new();
    let count = text("GIT_CONFIG_COUNT").and_then(|count| count.trim().parse::<u32>().ok()).unwrap_or(0);
    for number in 0..count {
        // Git does not start if one is missing.
        let Some(key) = text(&format!("GIT_CONFIG_KEY_{number}")) else { break };
        found.push((folded(&key), text(&format!("GIT_CONFIG_VALUE_{number}")).unwrap_or_default()));
    }
    let words = text("GIT_CONFIG_PARAMETERS").map(|words| quoted_words(&words)).unwrap_or_default();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((&word, "true"));
        found.push((folded(key), value.to_owned()));
    }
    found
}

/// Words in the quotes of a shell, as git writes them: `'a.b=c' 'd.e'='f'`. What is quoted belongs together with what follows it.
fn quoted_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.extend(chars.next()),
            c if c.is_whitespace() && !is_quoted => words.extend(Some(std::mem::take(&mut word))),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn is_true(value: &str) -> bool {
    let number = value.trim().parse::<i64>().is_ok_and(|number| number != 0);
    number || ["true", "yes", "on"].iter().any(|word| value.trim().eq_ignore_ascii_case(word))
}

/// A key with its first and its last part in lower case.
fn folded(key: &str) -> String {
    match (key.find('.'), key.rfind('.')) {
        (Some(first), Some(last)) => {
            let (section, rest) = key.split_at(first);
            let (between, name) = rest.split_at(last - first);
            format!("{}{between}{}", section.to_ascii_lowercase(), name.to_ascii_lowercase())
        }
        _ => key.to_ascii_lowercase(),
    }
}

/// The settings in a file. What git would not understand is left out.
fn parsed(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\r\n", "\n").replace("\\\n", "");
    let (mut section, mut found) = (String::new(), Vec::new());
    for line in joined.lines() {
        let mut line = line.trim();
        if let Some((header, rest)) = line.strip_prefix('[').and_then(split_header) {
            section = header;
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), value_of(value.trim())),
            None => (line, "true".to_owned()),
        };
        found.push((format!("{section}.{}", name.to_ascii_lowercase()), value));
    }
    found
}

/// The section's name and what stands behind `]`.
fn split_header(text: &str) -> Option<(String, &str)> {
    let Some((name, quoted)) = text.split_once('"').filter(|(name, _)| !name.contains(']')) else {
        let (name, rest) = text.split_once(']')?;
        return Some((name.trim().to_ascii_lowercase(), rest));
    };
    let (mut between, mut chars) = (String::new(), quoted.char_indices());
    loop {
        match chars.next()? {
            (_, '\\') => between.push(chars.next()?.1),
            (at, '"') => {
                let rest = quoted[at + 1..].trim_start().strip_prefix(']')?;
                return Some((format!("{}.{between}", name.trim().to_ascii_lowercase()), rest));
            }
            (_, c) => between.push(c),
        }
    }
}

fn value_of(text: &str) -> String {
    let (mut value, mut is_quoted, mut chars) = (String::new(), false, text.chars());
    // Up to here the value does not end in blanks that nobody quoted.
    let mut end = 0;
    while let Some(c) = chars.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => value.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(c) => c,
                None => break,
            }),
            c => value.push(c),
        }
        if is_quoted || !c.is_whitespace() {
            end = value.len();
        }
    }
    value.truncate(end);
    value
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    const TEXT: &str = "[alias] co = checkout\n\tst = status -s # short\n[Alias]\n  long = log \\\n    --oneline\n\
         quoted = \"!f() { echo \\\"a;b\\\"; }; f\" ; more\n  flag\n[core]\nhooksPath = \"\"\n\
         [branch \"Main \\\"x\\\"\"]\n  Remote = o\n[include]\n path = more\n[a.B]\nc=d\n";

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        fs::write(&file, TEXT).unwrap();
        fs::write(dir.path().join("more"), "[alias]\nst = included\n").unwrap();
        let list = SettingsList::of(|_| None, std::slice::from_ref(&file));
        let mut git = Command::new("git");
        git.args(["config", "--includes", "-z", "--list", "--file"]).arg(&file);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let listed = String::from_utf8(output.stdout).unwrap();
        for setting in listed.split('\0').filter(|setting| !setting.is_empty()) {
            let (key, _) = setting.split_once('\n').unwrap_or((setting, ""));
            let last = listed.split('\0').rev().find_map(|setting| match setting.split_once('\n') {
                Some((name, value)) => (name == key).then_some(value),
                None => (setting == key).then_some("true"),
            });
            assert_eq!(list.last(key), last, "{key}");
        }
        assert_eq!((list.last("alias.st"), list.last("a.b.c")), (Some("included"), Some("d")));
    }

    #[test]
    fn the_environment_says_where_settings_are_and_gives_some() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at(".gitconfig"), "[alias]\nx = home\n").unwrap();
        fs::write(at("named"), "[alias]\nx = named\n").unwrap();
        fs::write(at("local"), "[alias]\ny = local\n").unwrap();
        let (home, named) = (dir.path().display().to_string(), at("named").display().to_string());
        let x = |set: &[(&str, &str)]| {
            let variable = |name: &str| Some(OsString::from(set.iter().find(|(known, _)| *known == name)?.1));
            let list = SettingsList::of(variable, &[at("local")]);
            assert_eq!(list.last("alias.y"), Some("local"));
            list.last("alias.x").map(str::to_owned)
        };
        let home = ("HOME", home.as_str());
        assert_eq!(x(&[home]).as_deref(), Some("home"));
        assert_eq!(x(&[home, ("GIT_CONFIG_GLOBAL", &named)]).as_deref(), Some("named"));
        assert_eq!(x(&[home, ("GIT_CONFIG_GLOBAL", "/dev/null")]), None);
        let counted =
            [home, ("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "Alias.X"), ("GIT_CONFIG_VALUE_0", "c d")];
        assert_eq!(x(&counted).as_deref(), Some("c d"));
        for words in ["'alias.x=p q'", "'a.b' 'alias.x'='p q'", "'alias.x'='p q' "] {
            assert_eq!(x(&[home, ("GIT_CONFIG_PARAMETERS", words)]).as_deref(), Some("p q"), "{words}");
        }
    }
}
