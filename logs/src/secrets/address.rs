//! Passwords in addresses.

use std::ops::Range;

use super::scan::{Secret, Text};
use super::value::is_placeholder;

/// The longest user and password that are looked for in an address.
const MAX_USERINFO: usize = 512;

/// The password of `scheme://user:password@host`; the user, if it can only be a token.
pub(super) fn password(text: &Text<'_>, hit: Range<usize>) -> Option<Secret> {
    let begin = text.begin_of(hit.start, 32, |byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte));
    let ends = |byte: u8| byte.is_ascii_whitespace() || b"/\"'`<>\\".contains(&byte);
    let end = text.end_of(hit.end, MAX_USERINFO, |byte| !ends(byte));
    let userinfo = &text.bytes[hit.end..end];
    // A password may have an `@`, a host may not.
    let length = userinfo.iter().rposition(|byte| *byte == b'@')?;
    let userinfo = &userinfo[..length];
    let secret = match userinfo.iter().position(|byte| *byte == b':') {
        Some(colon) => hit.end + colon + 1..hit.end + length,
        None if is_token(userinfo) => hit.end..hit.end + length,
        None => return None,
    };
    (begin < hit.start && !is_placeholder(&text.bytes[secret.clone()])).then(|| Secret::new(begin, secret))
}

/// The password of `user:password@tcp(host)/database`.
pub(super) fn dsn_password(text: &Text<'_>, hit: Range<usize>) -> Option<Secret> {
    let is_in = |byte: u8| !byte.is_ascii_whitespace() && !b"\"'`/".contains(&byte);
    let begin = text.begin_of(hit.start, MAX_USERINFO, is_in);
    let colon = begin + text.bytes[begin..hit.start].iter().position(|byte| *byte == b':')?;
    Some(Secret::new(begin, colon + 1..hit.start))
}

/// True for what nobody has as a name: long, with digits among the letters.
fn is_token(user: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| user.iter().any(is);
    user.len() >= 20
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && user.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
