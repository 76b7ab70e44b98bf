//! Words of a command line, for hints that can be typed as they stand.

use std::fmt::Write as _;

/// A name as one word of a shell's command line. Whatever its bytes are, it is safe to print and stays on its line.
pub fn word(name: impl AsRef<[u8]>) -> String {
    let bytes = name.as_ref();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+:@%,=".contains(c);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        Ok(text) if !text.contains(char::is_control) => format!("'{}'", text.replace('\'', "'\\''")),
        _ => escaped(bytes),
    }
}

/// What commits or offers an agent's own files, as it is typed. `mark` names the issue. Some clients run no command with a backtick
/// or `$` in it, however that is quoted, so a subject that has one gives way to a plain one.
pub fn commit_line(mark: Option<&str>, subject: Option<&str>) -> String {
    let is_plain = |subject: &&str| {
        !subject.is_empty() && !subject.contains(|c: char| "`$".contains(c) || c.is_control())
    };
    let subject = subject.map(str::trim).filter(is_plain).unwrap_or("what changes");
    let is_part = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let names = |mark: &&str| subject.split(|c| !is_part(c)).any(|word| word == *mark);
    let message = match mark.filter(|mark| !names(mark)) {
        Some(mark) => format!("{mark}: {subject}"),
        None => subject.to_owned(),
    };
    format!("mala commit -m {}", word(message))
}

/// `$'...'`, in which bytes that cannot be shown have names.
fn escaped(bytes: &[u8]) -> String {
    let mut word = "$'".to_owned();
    let name = |word: &mut String, bytes: &[u8]| {
        for byte in bytes {
            write!(word, "\\x{byte:02X}").expect("writing to a string cannot fail");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => word.push_str("\\n"),
                '\t' => word.push_str("\\t"),
                '\'' | '\\' => word.extend(['\\', c]),
                c if c.is_control() => name(&mut word, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => word.push(c),
            }
        }
        name(&mut word, chunk.invalid());
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_is_one_word_whatever_is_in_it() {
        assert_eq!(word("src/a-b_c.rs"), "src/a-b_c.rs");
        assert_eq!(word("my file"), "'my file'");
        assert_eq!(word("a$(rm)'b"), "'a$(rm)'\\''b'");
        assert_eq!(word(""), "''");
        assert_eq!(word("a\n\tb"), "$'a\\n\\tb'");
        assert_eq!(word(b"bad\xFFa"), "$'bad\\xFFa'");
        assert_eq!(word("\u{1b}[31m"), "$'\\x1B[31m'");
    }

    #[test]
    fn a_line_that_commits_has_nothing_that_a_client_refuses() {
        assert_eq!(commit_line(Some("bd-9"), Some("mend it ")), "mala commit -m 'bd-9: mend it'");
        assert_eq!(
            commit_line(Some("bd-9"), Some("for bd-9: mend it")),
            "mala commit -m 'for bd-9: mend it'"
        );
        assert_eq!(commit_line(Some("bd-9"), Some("as bd-91")), "mala commit -m 'bd-9: as bd-91'");
        assert_eq!(commit_line(None, None), "mala commit -m 'what changes'");
        for odd in ["", " ", "use `x`", "a $(b)", "a\u{1b}b"] {
            assert_eq!(commit_line(Some("bd-9"), Some(odd)), "mala commit -m 'bd-9: what changes'", "{odd}");
        }
    }

    #[test]
    fn a_shell_reads_it_back() {
        for name in
            [&b"a b"[..], b"it's", b"line\nbreak\\n", b"\xFF\xFE1'$(x)", "\u{85}\u{e4}\u{7f}".as_bytes()]
        {
            let script = format!("printf %s {}", word(name));
            let read = Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(read.stdout, name, "{script}");
        }
    }
}
