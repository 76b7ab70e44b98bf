//! Plain command lines, and nothing that only a shell could understand.

use std::path::{Path, PathBuf};

/// Signs by which a line could do more than run one program and report its exit code.
const SHELL: &[char] = &['|', '&', ';', '<', '>', '$', '`', '\n', '(', ')', '{', '}', '#', '!'];

/// The program and its arguments, and the folder it runs in. `cd FOLDER &&` in front is understood.
pub(super) fn plain(line: &str, cwd: &Path) -> Option<(Vec<String>, PathBuf)> {
    let line = line.trim();
    let (cwd, line) = match line.strip_prefix("cd ").and_then(|rest| rest.split_once(" && ")) {
        Some((folder, rest)) => match words(folder)?.as_slice() {
            [folder] => (cwd.join(folder), rest),
            _ => return None,
        },
        None => (cwd.to_owned(), line),
    };
    let argv = words(line)?;
    (!argv.is_empty()).then_some((argv, cwd))
}

/// The same for an argument list, which may call a shell for one line.
pub(super) fn plain_args(args: &[String], cwd: &Path) -> Option<(Vec<String>, PathBuf)> {
    match args {
        [shell, option, line] if is_shell(shell) && matches!(option.as_str(), "-c" | "-lc") => {
            plain(line, cwd)
        }
        [] => None,
        args => Some((args.to_vec(), cwd.to_owned())),
    }
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "sh" | "bash" | "zsh" | "dash")
}

fn words(line: &str) -> Option<Vec<String>> {
    if line.contains(SHELL) { None } else { shlex::split(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<(String, PathBuf)> {
        plain(line, Path::new("/repo")).map(|(argv, cwd)| (argv.join(","), cwd))
    }

    #[test]
    fn plain_commands_are_read_and_folders_followed() {
        let at = |argv: &str, cwd: &str| Some((argv.to_owned(), PathBuf::from(cwd)));
        assert_eq!(read("pytest -q 'a b'"), at("pytest,-q,a b", "/repo"));
        assert_eq!(read("cd sub && pytest"), at("pytest", "/repo/sub"));
        assert_eq!(read("cd '/else where' && cargo test"), at("cargo,test", "/else where"));
        let args = ["/bin/bash", "-lc", "cd x && pytest"].map(str::to_owned);
        assert_eq!(plain_args(&args, Path::new("/r")), Some((vec!["pytest".into()], PathBuf::from("/r/x"))));
    }

    #[test]
    fn what_a_shell_could_twist_is_not_read() {
        for line in [
            "pytest || true",
            "pytest; true",
            "pytest | tee log",
            "pytest &",
            "pytest > log",
            "$(echo pytest)",
            "cd a && cd b && pytest",
            "cd a b && pytest",
            "if true\nthen pytest",
            "(pytest)",
            "pytest 'open",
            "",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
