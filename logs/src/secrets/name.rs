//! Names whose values are secrets.

/// A name with one of these words in it has a secret.
const WORDS: &[&str] = &[
    "TOKEN",
    "AUTHTOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
];

/// Names that people write as one word end like this: `PGPASSWORD`, `accesstoken`.
const ENDS: &[&str] = &[
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SSHPASS",
    "AUTHTOKEN",
    "ACCESSTOKEN",
    "APITOKEN",
    "REFRESHTOKEN",
    "APISECRET",
    "CLIENTSECRET",
    "SECRETKEY",
    "PRIVATEKEY",
    "ACCESSKEY",
    "ACCOUNTKEY",
];

/// Of these, whatever the rest is, the value is what a person types.
const PASSWORDS: &[&str] = &["PASSWORD", "PASSWD", "PASSPHRASE", "PWD", "PASS", "SSHPASS"];

/// What makes a key a secret one: not every key is.
const KEYS: &[&str] = &[
    "ACCESS",
    "ACCOUNT",
    "API",
    "AUTH",
    "DEPLOY",
    "ENCRYPTION",
    "LICENSE",
    "MASTER",
    "PRIVATE",
    "SECRET",
    "SIGNING",
];

/// A name that ends like this is about a secret, but has another value: where it is, how long it is good for.
const ABOUT: &[&str] = &[
    "AGE", "CHANGED", "CLASS", "COMMAND", "COUNT", "DIR", "ENABLED", "ENV", "ERROR", "EXISTS", "EXPIRED",
    "EXPIRES", "EXPIRY", "FIELD", "FILE", "FOLDER", "FORM", "FORMAT", "HASHER", "HELPER", "ID", "INDEX",
    "INPUT", "KIND", "LABEL", "LENGTH", "LIMIT", "MAX", "MIN", "NAME", "PATH", "PATTERN", "POLICY", "PROMPT",
    "PROVIDER", "REGEX", "REQUIRED", "SIZE", "STDIN", "STORE", "TEST", "TESTS", "TIMEOUT", "TTL", "TYPE",
    "URI", "URL", "USER", "VALID",
];

/// An option that begins like this says whether, not what.
const WHETHER: &[&str] = &["ASK", "NO", "PROMPT", "SHOW", "WITHOUT"];

/// True if an option or a variable of this name has a secret as its value.
pub(super) fn is_secret(name: &str) -> bool {
    let words = words(name);
    let Some((last, before)) = words.split_last() else { return false };
    let has = |list: &[&str], word: &String| list.contains(&word.as_str());
    if has(ABOUT, last) || (!before.is_empty() && has(WHETHER, &words[0])) {
        return false;
    }
    let is_variable = !name.bytes().any(|byte| byte.is_ascii_lowercase() || byte == b'-');
    match last.as_str() {
        "KEY" => is_variable || before.last().is_some_and(|word| has(KEYS, word)),
        "PASS" | "PWD" | "AUTH" => !before.is_empty() || name.starts_with('_'),
        // What signs an address of a storage account.
        "SIG" => before.is_empty() && !name.starts_with('-'),
        last => words.iter().any(|word| has(WORDS, word)) || ENDS.iter().any(|end| last.ends_with(end)),
    }
}

/// True if the value of a name that has a secret is a password: it may be any word.
pub(super) fn is_password(name: &str) -> bool {
    let words = words(name);
    words.iter().any(|word| PASSWORDS.iter().any(|password| word.ends_with(password)))
}

/// The words of `API_KEY`, `--api-key` or `apiKey`, in upper case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let is_new = !letter.is_ascii_alphanumeric() || (was_lower && letter.is_ascii_uppercase());
        if is_new {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphanumeric()) {
            word.push(letter.to_ascii_uppercase());
        }
        was_lower = letter.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_into_words() {
        for name in ["API_KEY", "--api-key", "apiKey", "api.key", "__api__KEY"] {
            assert_eq!(words(name), ["API", "KEY"], "{name}");
        }
        assert!(words("--").is_empty());
    }

    #[test]
    fn names_tell_whether_their_value_is_a_secret() {
        for name in [
            "TOKEN",
            "--token",
            "npm_authToken",
            "_auth",
            "DB_PASS",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_KEY",
            "PGPASSWORD",
            "accesstoken",
            "AccountKey",
            "SharedAccessKey",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "",
            "--",
            "password_field",
            "token_count",
            "PWD",
            "AUTH",
            "--pass",
            "--key",
            "AWS_ACCESS_KEY_ID",
            "TOKEN_TTL",
            "MONKEY",
            "tokens",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
