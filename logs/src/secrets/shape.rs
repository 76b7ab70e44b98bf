//! What secrets look like in a text.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::MASK;
use super::name::is_secret;

/// Finds one shape of secret and replaces it.
pub(super) struct Rule {
    shape: Regex,
    /// What a match becomes; nothing if it is no secret after all.
    replace: fn(&Captures<'_>) -> Option<String>,
}

impl Rule {
    fn new(shape: &str, replace: fn(&Captures<'_>) -> Option<String>) -> Self {
        Self { shape: Regex::new(shape).expect("a shape that the tests have compiled"), replace }
    }

    /// Nothing if there is nothing to replace.
    pub(super) fn apply(&self, text: &str) -> Option<String> {
        let mut replaced = false;
        let masked = self.shape.replace_all(text, |found: &Captures<'_>| {
            let masked = (self.replace)(found);
            replaced |= masked.is_some();
            masked.unwrap_or_else(|| found[0].to_owned())
        });
        match masked {
            Cow::Owned(masked) if replaced => Some(masked),
            _ => None,
        }
    }
}

/// A value in quotes, or up to the next space or quote.
const VALUE: &str = r#"("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"']+)"#;

/// How well-known tokens begin, and go on.
const TOKENS: &[(&str, &str)] = &[
    ("sk-(?:admin|ant|live|or|proj|svcacct|test)-", "[A-Za-z0-9_-]{6,}"),
    ("sk-", "[A-Za-z0-9]{16,}"),
    ("[rs]k_(?:live|test)_", "[A-Za-z0-9]{10,}"),
    ("gh[oprsu]_", "[A-Za-z0-9]{16,}"),
    ("github_pat_", "[A-Za-z0-9_]{16,}"),
    ("glpat-", "[A-Za-z0-9_-]{16,}"),
    ("xox[a-z]-", "[A-Za-z0-9-]{8,}"),
    ("AKIA", "[A-Z0-9]{16}"),
    ("ASIA", "[A-Z0-9]{16}"),
    ("AIza", "[A-Za-z0-9_-]{30,}"),
    ("npm_", "[A-Za-z0-9]{30,}"),
    ("pypi-", "[A-Za-z0-9_-]{40,}"),
    ("hf_", "[A-Za-z0-9]{30,}"),
    ("eyJ", r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
];

/// Applied one after the other.
pub(super) static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let headers = "authorization|proxy-authorization|x-api-key|api-key|private-token|x-auth-token|cookie";
    let tokens: Vec<String> = TOKENS.iter().map(|(begin, rest)| format!("({begin}){rest}")).collect();
    vec![
        Rule::new(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
            |_| Some(MASK.to_owned()),
        ),
        Rule::new(&format!(r#"(?i)\b((?:{headers})\s*:\s*)[^\s"'][^\r\n"']*"#), after_beginning),
        Rule::new(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s/]+@", |found| {
            Some(format!("{}{MASK}@", &found[1]))
        }),
        Rule::new(&format!(r#"([A-Za-z_][A-Za-z0-9_-]*)(=|"\s*:\s*){VALUE}"#), |found| {
            is_secret(&found[1]).then(|| format!("{}{}{}", &found[1], &found[2], in_quotes(&found[3])))
        }),
        // A value that begins with `-` would rather be the next option.
        Rule::new(&format!(r"(?:^|\s)(--?[A-Za-z][A-Za-z0-9-]*)(\s+){VALUE}"), |found| {
            let is_value = !found[3].starts_with('-') && is_secret(&found[1]);
            let lead = &found[0][..found.get(1)?.start() - found.get(0)?.start()];
            is_value.then(|| format!("{lead}{}{}{}", &found[1], &found[2], in_quotes(&found[3])))
        }),
        Rule::new(r"(\bcurl\b(?s:.*?)\s(?:-u\s*|--user[ =])[^\s:]+:)\S+", after_beginning),
        Rule::new(r"(?i)\b(bearer\s+)([A-Za-z0-9._~+/=-]{8,})", |found| {
            // Words are not tokens.
            let is_token = found[2].bytes().any(|byte| byte.is_ascii_digit());
            is_token.then(|| format!("{}{MASK}", &found[1]))
        }),
        Rule::new(&format!(r"\b(?:{})", tokens.join("|")), |found| {
            let beginning = found.iter().skip(1).flatten().next()?;
            Some(format!("{}{MASK}", beginning.as_str()))
        }),
    ]
});

fn after_beginning(found: &Captures<'_>) -> Option<String> {
    Some(format!("{}{MASK}", &found[1]))
}

/// A mask with the quotes of what it replaces, so that JSON stays JSON.
fn in_quotes(value: &str) -> String {
    let quote = value.get(..1).filter(|quote| matches!(*quote, "\"" | "'")).unwrap_or_default();
    format!("{quote}{MASK}{quote}")
}
