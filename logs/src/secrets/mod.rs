//! Keeps secrets out of whatever is recorded or exported.
//!
//! Command lines and environments carry passwords and tokens. [`mask`] and [`mask_args`] replace what looks like one by
//! `***`: values of options and variables with a telling name, passwords in addresses, authorization headers, private
//! keys, and tokens of well-known shapes wherever they stand. What is masked cannot be read back.
//!
//! It is a net, not a proof: a password that stands alone, under a name that tells nothing, is not recognised.

mod name;
mod shape;

use std::borrow::Cow;

use serde_json::Value;

use name::is_secret;

const MASK: &str = "***";

/// The text with secrets replaced by `***`.
pub fn mask(text: &str) -> Cow<'_, str> {
    shape::RULES.iter().fold(Cow::Borrowed(text), |text, rule| match rule.apply(&text) {
        Some(masked) => Cow::Owned(masked),
        None => text,
    })
}

/// Masks secrets in every text of a JSON value.
pub fn mask_json(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = mask(text) {
                *text = masked;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(mask_json),
        Value::Object(fields) => fields.values_mut().for_each(mask_json),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The arguments of a command with secrets replaced by `***`. Seeing them one by one, it also knows where a value ends
/// and that an option's value is the next argument.
pub fn mask_args<S: AsRef<str>>(args: &[S]) -> Vec<String> {
    let is_curl = args.first().is_some_and(|program| program.as_ref().rsplit('/').next() == Some("curl"));
    let mut masked = Vec::with_capacity(args.len());
    let mut before = "";
    for arg in args {
        let arg = arg.as_ref();
        masked.push(match arg.split_once(':') {
            _ if takes_secret(before) => MASK.to_owned(),
            Some((user, _)) if is_curl && matches!(before, "-u" | "--user") => format!("{user}:{MASK}"),
            _ => mask_arg(arg),
        });
        before = arg;
    }
    masked
}

/// True for `--password` and the like, whose value is the next argument.
fn takes_secret(option: &str) -> bool {
    option.starts_with('-') && !option.contains('=') && is_secret(option)
}

fn mask_arg(arg: &str) -> String {
    match arg.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_name(name) && is_secret(name) => {
            format!("{name}={MASK}")
        }
        _ => mask(arg).into_owned(),
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(mask(text), *expected, "{text}");
        }
    }

    #[test]
    fn every_text_of_a_json_value_is_masked() {
        let mut value =
            serde_json::json!({"what": "TOKEN=abc make", "list": [1, {"why": "--password=x"}], "n": null});
        mask_json(&mut value);
        let masked =
            serde_json::json!({"what": "TOKEN=*** make", "list": [1, {"why": "--password=***"}], "n": null});
        assert_eq!(value, masked);
    }

    #[test]
    fn values_of_telling_names_are_masked() {
        check(&[
            ("API_KEY=abc123 cargo test", "API_KEY=*** cargo test"),
            ("KEY=abc", "KEY=***"),
            ("GITHUB_TOKEN=\"a b\" make", "GITHUB_TOKEN=\"***\" make"),
            ("db_password='a b' x", "db_password='***' x"),
            ("MYSQL_PWD=hunter2", "MYSQL_PWD=***"),
            ("--password=x;y&z", "--password=***"),
            ("//host/:_authToken=abc", "//host/:_authToken=***"),
            ("client-secret=1 --secret-key=2", "client-secret=*** --secret-key=***"),
            (r#"{"apiKey": "abc", "id": "e-1"}"#, r#"{"apiKey": "***", "id": "e-1"}"#),
            ("https://host/path?access_token=abc", "https://host/path?access_token=***"),
        ]);
    }

    #[test]
    fn values_that_follow_an_option_are_masked() {
        check(&[
            ("deploy --token abc --verbose", "deploy --token *** --verbose"),
            ("deploy -password 'a b' now", "deploy -password '***' now"),
            ("deploy --name me --api-key abc", "deploy --name me --api-key ***"),
            ("curl -u me:abc host", "curl -u me:*** host"),
            ("curl --user=me:abc host", "curl --user=me:*** host"),
        ]);
    }

    #[test]
    fn tokens_of_known_shapes_are_masked_wherever_they_stand() {
        let long = "a1B2".repeat(10);
        for prefix in ["sk-", "sk-ant-", "sk-proj-", "ghp_", "gho_", "github_pat_", "glpat-", "npm_", "hf_"] {
            let text = format!("see {prefix}{long}.");
            assert_eq!(mask(&text), format!("see {prefix}***."), "{prefix}");
        }
        check(&[
            ("xoxb-1234567890-abcdef", "xoxb-***"),
            ("AKIAIOSFODNN7EXAMPLE", "AKIA***"),
            ("id=AKIAIOSFODNN7EXAMPLE,x", "id=AKIA***,x"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w", "eyJ***"),
            ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx", "***\nx"),
        ]);
    }

    #[test]
    fn authorization_is_masked() {
        check(&[
            ("-H 'Authorization: Bearer abc123def456'", "-H 'Authorization: ***'"),
            ("authorization: Basic dXNlcjpwYXNz", "authorization: ***"),
            ("X-Api-Key: abc\nAccept: */*", "X-Api-Key: ***\nAccept: */*"),
            ("Bearer abc123def456", "Bearer ***"),
        ]);
    }

    #[test]
    fn passwords_in_addresses_are_masked() {
        check(&[
            ("postgres://me:abc@host/db", "postgres://me:***@host/db"),
            ("https://x-access-token:a@b@host/r.git", "https://x-access-token:***@host/r.git"),
            ("redis://:abc@host", "redis://:***@host"),
        ]);
    }

    #[test]
    fn what_is_no_secret_stays() {
        let harmless = [
            "/home/me/secrets/token.txt",
            "src/auth/token.rs:12:5",
            "cargo test auth::token_is_refused -- --exact --test-threads=4",
            "tests/password_test.py::test_password[token-1]",
            "pytest -k 'token or password' -x",
            "3f786850e387550fdab836ed7e6dc881de23001b",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "0b8c5f0e-3d1c-4b52-9f67-9d2b8b0c6f11",
            "MAX_TOKENS=4096 TOKENIZERS_PARALLELISM=false",
            "PWD=/work OLDPWD=/home SSH_AUTH_SOCK=/tmp/agent.1 AUTHOR=me KEYBOARD=us",
            "sort --sort-key=name --key=2 --field-key x",
            "docker login --password-stdin host",
            "deploy --token-file token.txt --no-password host",
            "docker run -u 1000:1000 image",
            "git clone git@github.com:org/repo.git ssh://git@host/repo",
            "http://host:8080/a@b https://host:443/@scope/pkg",
            "sk-learn-integration-tests task-runner-with-a-long-name ask-me-anything-about-it",
            "a bearer of bad news, bearer authentication",
            "ghp_short xoxb- AKIA github_pat_",
            "const SECRET: &str = concat!()",
            "",
        ];
        for text in harmless {
            assert_eq!(mask(text), text);
            assert!(matches!(mask(text), Cow::Borrowed(_)), "{text}: nothing is copied");
        }
    }

    #[test]
    fn arguments_are_masked_whole() {
        let args =
            ["deploy", "--token", "-odd value", "--password=a b \"c\"", "DB_PASSWORD=x y", "--dry-run"];
        let masked = mask_args(&args);
        assert_eq!(masked, ["deploy", "--token", "***", "--password=***", "DB_PASSWORD=***", "--dry-run"]);
        let harmless =
            ["pytest", "-k", "password", "--junitxml=out/token.xml", "tests/token_test.py::a=b", "-p="];
        assert_eq!(mask_args(&harmless), harmless);
    }

    #[test]
    fn what_is_masked_stays_as_it_is_when_masked_again() {
        for text in ["API_KEY=abc --token abc", "https://me:abc@host", "Authorization: Bearer abc123def456"] {
            let once = mask(text).into_owned();
            assert_eq!(mask(&once), once);
        }
    }
}
