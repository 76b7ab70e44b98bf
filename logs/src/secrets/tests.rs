//! What is masked, and what is not.

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
    let args = ["deploy", "--token", "-odd value", "--password=a b \"c\"", "DB_PASSWORD=x y", "--dry-run"];
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

/// A stand-in for a secret: letters and digits, as if drawn by lot.
const RANDOM: &str = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6";
const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// What the bytes of a secret begin and end with in the corpus below.
const OPEN: char = '⟦';
const CLOSE: char = '⟧';

/// Lines as programs print them and people type them, with the secret in brackets. `R16` and `H32` stand for as many random
/// letters or hexadecimal digits: no file of this repository shall look as if it had secrets in it.
const CORPUS: &str = include_str!("corpus.txt");
const HARMLESS: &str = include_str!("harmless.txt");

fn filled(text: &str) -> String {
    let mut filled = text.to_owned();
    for (mark, source) in [
        ("@R", RANDOM),
        ("@U", "A1B2C3D4E5F6G7H8J9K0L1M2N3P4Q5R6S7T8U9V0W1X2Y3Z4A5B6C7D8E9F0G1"),
        ("@H", HEX),
    ] {
        while let Some(at) = filled.find(mark) {
            let digits = filled[at + 2..].chars().take_while(char::is_ascii_digit).count();
            let length: usize = filled[at + 2..at + 2 + digits].parse().unwrap();
            let random: String = source.chars().cycle().take(length).collect();
            filled.replace_range(at..at + 2 + digits, &random);
        }
    }
    filled.replace("\\n", "\n").replace("@@", "")
}

/// The samples of the corpus: the text, and its secrets.
fn samples() -> Vec<(String, Vec<String>)> {
    let lines = CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines
        .map(|line| {
            let text = filled(line);
            let secrets = text.split(OPEN).skip(1).map(|rest| rest.split(CLOSE).next().unwrap().to_owned());
            (text.replace([OPEN, CLOSE], ""), secrets.collect())
        })
        .collect()
}

#[test]
fn no_secret_of_the_corpus_is_left() {
    let mut left = Vec::new();
    for (text, secrets) in samples() {
        assert!(!secrets.is_empty(), "{text}: no secret is marked");
        let masked = mask(&text);
        if secrets.iter().any(|secret| masked.contains(secret.as_str())) || !masked.contains(MASK) {
            left.push(format!("{text}\n     -> {masked}"));
        }
        assert_eq!(mask(&masked), masked, "masked again, it stays as it is");
    }
    assert!(left.is_empty(), "{} are left:\n{}", left.len(), left.join("\n"));
}

#[test]
fn nothing_harmless_of_the_corpus_is_masked() {
    let lines = HARMLESS.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let masked = lines.map(filled).filter(|text| mask(text) != *text);
    let masked: Vec<String> = masked.map(|text| format!("{text}\n     -> {}", mask(&text))).collect();
    assert!(masked.is_empty(), "{} are masked:\n{}", masked.len(), masked.join("\n"));
}

/// The same bytes through a stream, cut into pieces of this size.
fn streamed(text: &[u8], size: usize) -> Vec<u8> {
    use std::io::Write as _;
    let mut stream = MaskingWriter::new(Vec::new());
    text.chunks(size).for_each(|piece| stream.write_all(piece).unwrap());
    stream.finish().unwrap()
}

#[test]
fn a_secret_that_comes_in_pieces_is_masked_like_one_that_comes_whole() {
    for (text, _) in samples() {
        for size in [1, 3, 7, 64] {
            assert_eq!(
                String::from_utf8(streamed(text.as_bytes(), size)).unwrap(),
                mask(&text),
                "pieces of {size}"
            );
        }
    }
}

#[test]
fn no_secret_slips_through_where_a_long_stream_is_passed_on() {
    // Far more than is held back, so that every sample is cut somewhere.
    let filler = "running 1 test of many, all of them fine\n";
    let samples = samples();
    let mut text = String::new();
    for round in 0..40 {
        for (sample, _) in &samples {
            text.push_str(sample);
            text.push('\n');
            text.push_str(&filler.repeat(round % 7));
        }
    }
    for size in [1_000, 4_096, 65_536] {
        let masked = String::from_utf8(streamed(text.as_bytes(), size)).unwrap();
        for (sample, secrets) in &samples {
            for secret in secrets.iter().filter(|secret| secret.len() > 7) {
                let left =
                    masked.find(secret.as_str()).map(|at| &masked[at.saturating_sub(200)..at + secret.len()]);
                assert_eq!(left, None, "of `{sample}`, in pieces of {size}");
            }
        }
    }
}

#[test]
fn a_key_longer_than_what_is_held_back_is_masked_as_a_whole() {
    let line = format!("{}\n", "QUJD".repeat(16));
    let key =
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}-----END OPENSSH PRIVATE KEY-----", line.repeat(700));
    let text = format!("{}{key}\nafter\n", "before\n".repeat(5_000));
    let masked = String::from_utf8(streamed(text.as_bytes(), 8_192)).unwrap();
    assert!(!masked.contains("QUJD") && masked.ends_with("\nafter\n"), "{}", &masked[masked.len() - 300..]);
}

#[test]
fn what_is_no_text_passes_through_as_it_is() {
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(streamed(&bytes, 1_000), bytes);
    assert_eq!(mask_bytes(b"\xff TOKEN=abc \xfe").as_ref(), b"\xff TOKEN=*** \xfe");
}

/// What grows with more than the length of the text would not come to an end here.
#[test]
fn a_long_hostile_text_is_masked_in_time_that_grows_with_its_length() {
    for piece in [
        "token=",
        "password: ",
        "://",
        "curl -u ",
        "'TOKEN='",
        "\"key\":\"",
        "-----BEGIN PRIVATE KEY-----\n",
        ":AA",
        "a.b",
        "<password>",
        "eyJ.",
        "secret",
    ] {
        let text = piece.repeat((128 << 10) / piece.len());
        assert!(mask(&text).len() <= text.len());
    }
}

#[test]
fn the_end_of_a_file_is_masked_before_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("output");
    let token = format!("ghp_{}", "a1B2".repeat(10));
    std::fs::write(&file, format!("{}{token} is the last word\n", "x\n".repeat(10_000))).unwrap();
    // The cut would be in the middle of the token.
    assert_eq!(tail(&file, 40).unwrap().matches("a1B2").count(), 0);
    assert!(tail(&file, 40).unwrap().ends_with("ghp_*** is the last word\n"));
    assert_eq!(tail(&dir.path().join("none"), 40), None);
}
