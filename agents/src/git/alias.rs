//! Commands that stand for other commands, followed without running anything.
//!
//! Git looks for an alias only if it has no command of that name, and so do these rules. What an alias hands to a shell is a
//! program like any other.

use super::Facts;
use super::call::Call;
use super::table::is_known;

/// Git refuses aliases that lead to themselves; nobody writes longer chains.
const MAX_ALIASES: usize = 16;

/// What becomes of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expanded {
    /// These words behind `git`; the command is git's own, or unknown.
    Words(Vec<String>),
    /// A shell runs what the alias says; true if the command line itself, or its environment, says what that is.
    Shell { is_given: bool },
}

/// Follows aliases.
pub(super) fn expand(words: &[&str], facts: &Facts<'_>) -> Expanded {
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    for _ in 0..MAX_ALIASES {
        let texts: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(call) = Call::read(&texts).filter(|call| !is_known(call.verb)) else { break };
        let given = given(&call, facts);
        let Some(alias) = given.clone().or_else(|| (facts.alias)(call.verb)) else { break };
        if alias.starts_with('!') {
            return Expanded::Shell { is_given: given.is_some() };
        }
        let before = texts.len() - call.rest.len() - 1;
        let rest = call.rest.iter().map(|word| (*word).to_owned());
        let expanded: Vec<String> =
            texts[..before].iter().map(|word| (*word).to_owned()).chain(split(&alias)).chain(rest).collect();
        words = expanded;
    }
    Expanded::Words(words)
}

/// What the command line or its environment says that the command stands for. The last word counts.
fn given(call: &Call<'_>, facts: &Facts<'_>) -> Option<String> {
    let key = format!("alias.{}", call.verb);
    let settings = facts.settings.iter().map(String::as_str).chain(call.config.iter().copied());
    let of_it = |setting: &str| {
        let (name, value) = setting.split_once('=')?;
        name.eq_ignore_ascii_case(&key).then(|| value.to_owned())
    };
    settings.rev().find_map(of_it)
}

/// The words of an alias, as git splits them: at spaces, but for those in quotes or behind `\`.
fn split(alias: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let (mut quote, mut chars) = (None, alias.chars());
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(line: &str, settings: &[String]) -> Expanded {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let alias = |name: &str| match name {
            "co" => Some("checkout".to_owned()),
            "mine" => Some("-c a.b='c d' commit -m \"a b\" -- x\\ y".to_owned()),
            "again" => Some("co -q".to_owned()),
            "sh" => Some("!rm -rf .".to_owned()),
            "loop" => Some("loop".to_owned()),
            "status" => Some("reset --hard".to_owned()),
            _ => None,
        };
        expand(&words, &Facts { exists: &|_| false, alias: &alias, settings, run: None })
    }

    #[test]
    fn aliases_are_followed_to_commands_of_git() {
        for (line, words) in [
            ("git co main", &["checkout", "main"][..]),
            ("git -C x again main", &["-C", "x", "checkout", "-q", "main"]),
            ("git mine -v", &["-c", "a.b=c d", "commit", "-m", "a b", "--", "x y", "-v"]),
            ("git status", &["status"]),
            ("git -c alias.x=reset x -q", &["-c", "alias.x=reset", "reset", "-q"]),
            ("git -c alias.co=log co", &["-c", "alias.co=log", "log"]),
            ("git nothing", &["nothing"]),
            ("git loop", &["loop"]),
        ] {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(expanded(line, &[]), Expanded::Words(words), "{line}");
        }
        let environment = ["ALIAS.co=log".to_owned()];
        assert_eq!(expanded("git co", &environment), Expanded::Words(vec!["log".to_owned()]));
    }

    #[test]
    fn what_a_shell_runs_is_no_command_of_git() {
        assert_eq!(expanded("git sh", &[]), Expanded::Shell { is_given: false });
        assert_eq!(expanded("git -c alias.x=!ls x", &[]), Expanded::Shell { is_given: true });
    }
}
