//! Tokens that are known by their shape, wherever they stand.

use std::ops::Range;

use super::scan::{Secret, Text};

/// Of what a token consists.
#[derive(Debug, Clone, Copy)]
pub(super) enum Class {
    Hex,
    /// Letters and digits.
    Plain,
    /// Upper case and digits.
    Upper,
    /// Letters, digits, `_` and `-`.
    Word,
    /// The same and `.`, `=`, `~`, `+`, `/`.
    Wide,
}

impl Class {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Plain => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Word => is_word(byte),
            Self::Wide => is_word(byte) || matches!(byte, b'.' | b'=' | b'~' | b'+' | b'/'),
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A token with a beginning of its own, which stays readable.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) prefix: &'static str,
    class: Class,
    /// So many characters follow at least, and at most.
    length: (usize, usize),
}

const fn at_least(prefix: &'static str, class: Class, least: usize) -> Token {
    Token { prefix, class, length: (least, usize::MAX) }
}

const fn exactly(prefix: &'static str, class: Class, length: usize) -> Token {
    Token { prefix, class, length: (length, length) }
}

/// Most services publish the beginnings of their tokens, so that they can be found where they should not be.
pub(super) const TOKENS: &[Token] = &[
    // OpenAI, Anthropic, OpenRouter, Groq, xAI, Perplexity, Replicate, Hugging Face
    at_least("sk-admin-", Class::Word, 6),
    at_least("sk-ant-", Class::Word, 6),
    at_least("sk-live-", Class::Word, 6),
    at_least("sk-or-", Class::Word, 6),
    at_least("sk-proj-", Class::Word, 6),
    at_least("sk-svcacct-", Class::Word, 6),
    at_least("sk-test-", Class::Word, 6),
    at_least("sk-", Class::Plain, 16),
    at_least("gsk_", Class::Plain, 30),
    at_least("xai-", Class::Plain, 30),
    at_least("pplx-", Class::Plain, 30),
    at_least("r8_", Class::Plain, 30),
    at_least("hf_", Class::Plain, 30),
    // Stripe
    at_least("sk_live_", Class::Plain, 10),
    at_least("sk_test_", Class::Plain, 10),
    at_least("rk_live_", Class::Plain, 10),
    at_least("rk_test_", Class::Plain, 10),
    at_least("whsec_", Class::Wide, 16),
    // GitHub, GitLab, Bitbucket and Atlassian
    at_least("ghp_", Class::Plain, 16),
    at_least("gho_", Class::Plain, 16),
    at_least("ghu_", Class::Plain, 16),
    at_least("ghs_", Class::Plain, 16),
    at_least("ghr_", Class::Plain, 16),
    at_least("github_pat_", Class::Word, 16),
    at_least("glpat-", Class::Word, 16),
    at_least("gloas-", Class::Word, 16),
    at_least("gldt-", Class::Word, 16),
    at_least("glrt-", Class::Word, 16),
    at_least("glcbt-", Class::Word, 16),
    at_least("glptt-", Class::Word, 16),
    at_least("glft-", Class::Word, 16),
    at_least("glimt-", Class::Word, 16),
    at_least("glagent-", Class::Word, 16),
    at_least("glsoat-", Class::Word, 16),
    at_least("ATATT3", Class::Wide, 50),
    at_least("ATCTT3", Class::Wide, 50),
    at_least("ATBB", Class::Plain, 28),
    // Slack
    at_least("xoxa-", Class::Word, 8),
    at_least("xoxb-", Class::Word, 8),
    at_least("xoxc-", Class::Word, 8),
    at_least("xoxd-", Class::Wide, 8),
    at_least("xoxe-", Class::Word, 8),
    at_least("xoxe.xox", Class::Wide, 8),
    at_least("xoxo-", Class::Word, 8),
    at_least("xoxp-", Class::Word, 8),
    at_least("xoxr-", Class::Word, 8),
    at_least("xoxs-", Class::Word, 8),
    at_least("xapp-", Class::Word, 16),
    // Cloud providers
    exactly("AKIA", Class::Upper, 16),
    exactly("ASIA", Class::Upper, 16),
    exactly("ABIA", Class::Upper, 16),
    exactly("ACCA", Class::Upper, 16),
    at_least("AIza", Class::Word, 30),
    at_least("ya29.", Class::Word, 20),
    at_least("1//0", Class::Word, 30),
    at_least("GOCSPX-", Class::Word, 20),
    at_least("dop_v1_", Class::Hex, 32),
    at_least("doo_v1_", Class::Hex, 32),
    at_least("dor_v1_", Class::Hex, 32),
    at_least("hvs.", Class::Word, 20),
    at_least("hvb.", Class::Word, 20),
    at_least("hvr.", Class::Word, 20),
    at_least("dapi", Class::Hex, 32),
    at_least("FlyV1 fm", Class::Wide, 30),
    at_least("nfp_", Class::Plain, 30),
    at_least("sbp_", Class::Hex, 32),
    at_least("dp.pt.", Class::Plain, 30),
    at_least("dp.st.", Class::Wide, 30),
    at_least("dp.ct.", Class::Plain, 30),
    at_least("dp.sa.", Class::Plain, 30),
    at_least("glc_", Class::Wide, 30),
    at_least("glsa_", Class::Word, 30),
    at_least("NRAK-", Class::Plain, 20),
    at_least("NRII-", Class::Word, 20),
    // Registries
    at_least("dckr_pat_", Class::Word, 16),
    at_least("dckr_oat_", Class::Word, 16),
    at_least("npm_", Class::Plain, 30),
    at_least("pypi-", Class::Word, 40),
    at_least("rubygems_", Class::Hex, 40),
    exactly("cio", Class::Plain, 32),
    exactly("oy2", Class::Plain, 43),
    // Mail, payment, shops, trackers
    at_least("SG.", Class::Wide, 40),
    exactly("SK", Class::Hex, 32),
    exactly("key-", Class::Hex, 32),
    at_least("xkeysib-", Class::Word, 40),
    at_least("re_", Class::Word, 32),
    at_least("sq0atp-", Class::Word, 16),
    at_least("sq0csp-", Class::Word, 16),
    at_least("shpat_", Class::Hex, 32),
    at_least("shpca_", Class::Hex, 32),
    at_least("shppa_", Class::Hex, 32),
    at_least("shpss_", Class::Hex, 32),
    at_least("lin_api_", Class::Plain, 30),
    at_least("ntn_", Class::Plain, 30),
    at_least("secret_", Class::Plain, 40),
    at_least("figd_", Class::Word, 30),
    at_least("sntrys_", Class::Wide, 30),
    at_least("sntryu_", Class::Hex, 40),
    at_least("PMAK-", Class::Word, 40),
    at_least("AGE-SECRET-KEY-1", Class::Upper, 20),
    at_least("AGE-SECRET-KEY-PQ-1", Class::Upper, 20),
];

/// The rest of a token that begins like this.
pub(super) fn secret(text: &Text<'_>, hit: Range<usize>, token: &Token) -> Option<Secret> {
    let is_exact = &text.bytes[hit.clone()] == token.prefix.as_bytes();
    if !is_exact || !text.is_boundary(hit.start) {
        return None;
    }
    let (least, most) = token.length;
    let mut end = text.end_of(hit.end, most.min(MAX_TOKEN), |byte| token.class.has(byte));
    // A sentence ends with a dot, a token does not.
    while end > hit.end && text.before(end) == Some(b'.') {
        end -= 1;
    }
    let goes_on = most != usize::MAX && text.at(end).is_some_and(|byte| byte.is_ascii_alphanumeric());
    if end - hit.end < least || goes_on {
        return None;
    }
    let is_aws = matches!(token.prefix, "AKIA" | "ASIA");
    let end = if is_aws { end_of_aws_secret(text, end).unwrap_or(end) } else { end };
    Some(Secret::new(hit.start, hit.end..end))
}

/// Longer than any token that is not named.
const MAX_TOKEN: usize = 8 << 10;

/// The secret of an AWS key is often written right behind its id: `AKIA...,wJalrXUtnFEMI/...`.
fn end_of_aws_secret(text: &Text<'_>, id: usize) -> Option<usize> {
    let between = text.end_of(id, 4, |byte| b",;:| \t\"'".contains(&byte));
    let end = text.end_of(between, 41, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+'));
    (between > id && end - between == 40).then_some(end)
}

/// A token that has no beginning of its own, or more than one part.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// `eyJ` and at least three parts with dots in between.
    Jwt,
    /// Ten digits, a colon and 35 characters.
    Telegram,
    /// `ID.TIME.HMAC` around a dot.
    Discord,
    /// The last part of the path.
    Webhook,
    /// Fourteen characters before it, many after it.
    Terraform,
    /// Thirty-odd characters around `Q~`.
    Azure,
    /// 32 hexadecimal digits before it.
    Mailchimp,
}

/// What the shapes are found by.
pub(super) const SHAPES: &[(&str, Shape)] = &[
    ("eyj", Shape::Jwt),
    (":aa", Shape::Telegram),
    (".", Shape::Discord),
    ("hooks.slack.com/services/", Shape::Webhook),
    ("hooks.slack.com/workflows/", Shape::Webhook),
    ("/api/webhooks/", Shape::Webhook),
    (".webhook.office.com/webhookb2/", Shape::Webhook),
    (".atlasv1.", Shape::Terraform),
    ("q~", Shape::Azure),
    ("-us", Shape::Mailchimp),
];

/// The secret of this shape around the hit.
pub(super) fn shape(text: &Text<'_>, hit: Range<usize>, shape: Shape) -> Option<Secret> {
    match shape {
        Shape::Jwt => jwt(text, hit),
        Shape::Telegram => {
            let begin = text.begin_of(hit.start, 11, |byte| byte.is_ascii_digit());
            let end = text.end_of(hit.start + 1, 40, is_word);
            let fits = (8..=10).contains(&(hit.start - begin)) && end - hit.start == 36;
            (fits && &text.bytes[hit.clone()] == b":AA").then(|| Secret::new(begin, hit.start + 1..end))
        }
        Shape::Discord => discord(text, hit.start),
        Shape::Webhook => {
            let end = text.end_of(hit.end, 256, |byte| is_word(byte) || byte == b'/' || byte == b'@');
            (end - hit.end >= 20).then(|| Secret::new(hit.start, hit.end..end))
        }
        Shape::Terraform => {
            let begin = text.begin_of(hit.start, 15, |byte| byte.is_ascii_alphanumeric());
            let end = text.end_of(hit.end, 128, is_word);
            (hit.start - begin == 14 && end - hit.end >= 50).then(|| Secret::new(begin, begin..end))
        }
        Shape::Azure => {
            let begin = hit.start.checked_sub(4)?;
            let is_in = |byte: u8| is_word(byte) || matches!(byte, b'~' | b'.');
            let end = text.end_of(hit.end, 40, is_in);
            let head = &text.bytes[begin..hit.start];
            let fits = head[..3].iter().all(|byte| is_in(*byte)) && head[3].is_ascii_digit();
            (fits && (31..=34).contains(&(end - hit.end)) && text.is_boundary(begin))
                .then(|| Secret::new(begin, begin..end))
        }
        Shape::Mailchimp => {
            let begin = text.begin_of(hit.start, 33, |byte| byte.is_ascii_hexdigit());
            let end = text.end_of(hit.end, 2, |byte| byte.is_ascii_digit());
            (hit.start - begin == 32 && end > hit.end).then(|| Secret::new(begin, begin..end))
        }
    }
}

fn jwt(text: &Text<'_>, hit: Range<usize>) -> Option<Secret> {
    if &text.bytes[hit.clone()] != b"eyJ" || !text.is_boundary(hit.start) {
        return None;
    }
    let (mut end, mut parts) = (text.end_of(hit.end, MAX_TOKEN, is_word), 1);
    while text.at(end) == Some(b'.') {
        let next = text.end_of(end + 1, MAX_TOKEN, is_word);
        if next - end <= 8 {
            break;
        }
        (end, parts) = (next, parts + 1);
    }
    (parts >= 3).then(|| Secret::new(hit.start, hit.end..end))
}

/// `dot` is the first of the two dots.
fn discord(text: &Text<'_>, dot: usize) -> Option<Secret> {
    if text.at(dot + 7) != Some(b'.') {
        return None;
    }
    let begin = text.begin_of(dot, 30, is_word);
    let end = text.end_of(dot + 8, 45, is_word);
    let fits = (23..=28).contains(&(dot - begin))
        && text.bytes[dot + 1..dot + 7].iter().all(|byte| is_word(*byte))
        && (27..=40).contains(&(end - dot - 8))
        && matches!(text.at(begin), Some(b'M' | b'N' | b'O'));
    fits.then(|| Secret::new(begin, begin..end))
}
