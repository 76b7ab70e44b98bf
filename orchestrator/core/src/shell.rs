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
