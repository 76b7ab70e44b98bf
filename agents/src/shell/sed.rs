//! What a sed script does to files by itself: `w` writes one, `e` runs a command.

/// True if the script surely writes no file and runs nothing. A script that cannot be read is not harmless.
pub(super) fn is_harmless(script: &str) -> bool {
    let mut chars = Chars { rest: script };
    loop {
        chars.skip(|char| char.is_whitespace() || char == ';' || char == '{' || char == '}');
        if chars.rest.is_empty() {
            return true;
        }
        if !chars.address() {
            return false;
        }
        let Some(command) = chars.next() else { return false };
        let is_fine = match command {
            's' => chars.substitution(),
            'y' => {
                chars.next().is_some_and(|char| chars.text(char).and_then(|()| chars.text(char)).is_some())
            }
            'a' | 'i' | 'c' => {
                chars.line();
                true
            }
            'r' | 'R' | '#' => {
                chars.skip(|char| char != '\n');
                true
            }
            ':' | 'b' | 't' | 'T' => {
                chars.skip(|char| char != ';' && char != '\n' && char != '}');
                true
            }
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'l' | 'n' | 'N' | 'p' | 'P' | 'q' | 'Q' | 'x' | 'z'
            | 'F' => {
                chars.skip(|char| char.is_ascii_digit() || char == ' ');
                true
            }
            '{' | '}' => true,
            _ => false, // `w`, `W`, `e`, or something else
        };
        if !is_fine {
            return false;
        }
    }
}

struct Chars<'a> {
    rest: &'a str,
}

impl Chars<'_> {
    fn next(&mut self) -> Option<char> {
        let char = self.rest.chars().next()?;
        self.rest = &self.rest[char.len_utf8()..];
        Some(char)
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_skipped);
    }

    /// The rest of the line, continued ones included.
    fn line(&mut self) {
        while let Some(char) = self.next() {
            match char {
                '\\' => drop(self.next()),
                '\n' => return,
                _ => {}
            }
        }
    }

    /// Addresses in front of a command.
    fn address(&mut self) -> bool {
        loop {
            self.skip(|char| char.is_ascii_digit() || " \t,!~+$I".contains(char));
            match self.rest.chars().next() {
                Some('/') => {
                    if self.regex().is_none() {
                        return false;
                    }
                }
                Some('\\') => {
                    self.next();
                    if self.regex().is_none() {
                        return false;
                    }
                }
                _ => return true,
            }
        }
    }

    /// A delimiter and a regular expression ended by it; the delimiter.
    fn regex(&mut self) -> Option<char> {
        let delimiter = self.next()?;
        loop {
            match self.next()? {
                '\\' => drop(self.next()?),
                '[' if delimiter != '[' => self.class()?,
                char if char == delimiter => return Some(delimiter),
                _ => {}
            }
        }
    }

    /// The rest of a `[...]`, in which the delimiter means nothing. Classes have names: `[[:alpha:]]`.
    fn class(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        self.rest = self.rest.strip_prefix(']').unwrap_or(self.rest);
        loop {
            match (self.next()?, self.rest.chars().next()) {
                (']', _) => return Some(()),
                ('\n', _) => return None,
                ('[', Some(kind @ (':' | '.' | '='))) => {
                    let end = self.rest[1..].find(&[kind, ']'].iter().collect::<String>())?;
                    self.rest = &self.rest[end + 3..];
                }
                _ => {}
            }
        }
    }

    /// Text ended by `delimiter`.
    fn text(&mut self, delimiter: char) -> Option<()> {
        loop {
            match self.next()? {
                '\\' => drop(self.next()?),
                char if char == delimiter => return Some(()),
                _ => {}
            }
        }
    }

    fn substitution(&mut self) -> bool {
        if self.regex().and_then(|delimiter| self.text(delimiter)).is_none() {
            return false;
        }
        let flags =
            self.rest.len() - self.rest.trim_start_matches(|char: char| char.is_ascii_alphanumeric()).len();
        let is_fine = !self.rest[..flags].contains(['w', 'e']);
        self.rest = &self.rest[flags..];
        is_fine
    }
}

#[cfg(test)]
mod tests {
    use super::is_harmless;

    #[test]
    fn a_script_that_only_edits_is_harmless() {
        for script in [
            "s/a/b/",
            "s/new/we/g",
            "1,5p",
            "/write/d",
            "$!N;s|w|e|Ig",
            "2i\\\nwrite this",
            "y/we/ew/",
            "/a/,/b/{s/x/y/;p}",
            ":a;N;$!ba;s/\\n/ /g",
            "s/[/w]/x/",
            "",
            "5q",
        ] {
            assert!(is_harmless(script), "{script}");
        }
    }

    #[test]
    fn a_script_that_writes_or_runs_is_not() {
        for script in [
            "w out",
            "s/a/b/w out",
            "/x/w out",
            "1e rm x",
            "s/.*/rm x/e",
            "p;W f",
            "s/a/b",
            "k",
            "s/a/[/w out]/",
            "s/[]/]/x/w f",
            "s/[[:alpha:]/]/p/w f/a.rs",
            "# \\\nw f",
        ] {
            assert!(!is_harmless(script), "{script}");
        }
    }
}
