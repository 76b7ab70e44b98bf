//! Words of a command line, for hints that can be typed as they stand.

/// A name as one word of a shell's command line.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+:@%,=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_whatever_is_in_it() {
        assert_eq!(word("src/a-b_c.rs"), "src/a-b_c.rs");
        assert_eq!(word("my file"), "'my file'");
        assert_eq!(word("a$(rm)'b"), "'a$(rm)'\\''b'");
        assert_eq!(word(""), "''");
    }
}
