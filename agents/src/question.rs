//! Telling a question from an answer: has the agent ended its turn because it wants to know something?

/// The longest question that is passed on.
const LONGEST: usize = 500;

/// The question that a last message ends with, if it does: its last paragraph, when that ends with a question mark.
pub fn of(message: &str) -> Option<String> {
    let decoration = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '\'' | ')' | ']');
    let text = message.trim_end_matches(decoration);
    if !text.ends_with('?') {
        return None;
    }
    let paragraph = text.rsplit("\n\n").next().unwrap_or(text).trim();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let from = line.ceil_char_boundary(line.len().saturating_sub(LONGEST));
    Some(line[from..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_ends_with_a_question_asks() {
        let asked = "I looked at both.\n\nShould I use **SQLite**,\nor keep the file?**\n";
        assert_eq!(of(asked).unwrap(), "Should I use **SQLite**, or keep the file?");
        assert_eq!(of("Which port?").unwrap(), "Which port?");
        assert!(of(&format!("{}?", "é".repeat(2000))).unwrap().len() <= LONGEST);
    }

    #[test]
    fn a_message_that_merely_contains_one_does_not() {
        for message in ["", "Why did it fail? Because of the lock.", "Done.", "what?\n\nIt works now.\n"] {
            assert_eq!(of(message), None, "{message}");
        }
    }
}
