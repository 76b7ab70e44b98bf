//! What the language means, by example. `brute_force` and `properties` hold the rules, `cost` the bound
//! on work.

mod brute_force;
mod cost;
mod oracle;
mod properties;

use super::*;

fn pattern(text: impl AsRef<[u8]>) -> Pattern {
    Pattern::parse(text.as_ref()).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn check_overlaps(pairs: &[(&str, &str)], expected: bool) {
    for (a, b) in pairs {
        let (left, right) = (pattern(a), pattern(b));
        assert_eq!(left.overlaps(&right), expected, "`{a}` and `{b}`");
        assert_eq!(right.overlaps(&left), expected, "`{b}` and `{a}`");
    }
}

#[test]
fn literals_overlap_when_they_are_the_same_path() {
    check_overlaps(
        &[
            ("src/lib.rs", "src/lib.rs"),
            ("./a//b/./c/", "a/b/c"),
            (r"a\b", "ab"),
            ("a]", r"a\]"),
            ("[*]", r"\*"),
            (r"\./a", "a"),
        ],
        true,
    );
    check_overlaps(
        &[("src/lib.rs", "src/main.rs"), ("src", "src/lib.rs"), ("a/b", "ab"), ("é", "e"), ("A", "a")],
        false,
    );
}

#[test]
fn stars_and_question_marks_stay_within_a_segment() {
    check_overlaps(
        &[
            ("*.rs", "lib.rs"),
            ("*.rs", ".rs"),
            ("*", ".hidden"),
            ("a*", "*b"),
            ("a*b*c", "*x*"),
            ("src/*", "*/lib.rs"),
            ("a*a", "aa"),
            ("?", "é"),
            ("caf?", "café"),
            ("??", "a*"),
            (r"\**", r"\*x"),
            (r"*\?", "a[?]"),
        ],
        true,
    );
    check_overlaps(
        &[
            ("*.rs", "src/lib.rs"),
            ("*.rs", "*.md"),
            ("a*", "b*"),
            ("a*a", "a"),
            ("?", "ab"),
            ("?", "a/b"),
            ("??", "é"),
            ("a?b", "a/b"),
            ("a*b", "a/b"),
            ("src/*", "src"),
            ("src/*", "src/a/b"),
            ("*a", "*b"),
            ("a?", "?b*c"),
            (r"\**", "x*"),
        ],
        false,
    );
}

#[test]
fn classes_intersect_exactly() {
    check_overlaps(
        &[
            ("[a-c]", "[c-e]"),
            ("[^a]", "[!b]"),
            ("[a-z]?", "[^0-9][!a-y]"),
            ("[]]", "]"),
            ("[]a]", "]"),
            ("[]-a]", "_"),
            ("[^]]", "a"),
            (r"[\]]", "]"),
            (r"[a\-z]", "-"),
            (r"[\a-\c]", "b"),
            ("[a-]", "-"),
            ("[-a]", "-"),
            ("[a-c-e]", "-"),
            ("[!-0]", "1"),
            ("[a^]", "^"),
            ("[{}]", r"\{"),
            ("[a[]", r"\["),
            ("[à-ü]", "é"),
            ("[^a]", "é"),
        ],
        true,
    );
    check_overlaps(
        &[
            ("[a-c]", "[d-f]"),
            ("[ac]", "[bd]"),
            ("[^a-y]", "[b-y]"),
            ("[^]]", "]"),
            ("[^a]", "a"),
            ("[!-0]", "-"),
            (r"[a\-z]", "b"),
            ("[a-c-e]", "d"),
            ("x[+-9]y", "x/y"),
            ("x[^a]y", "x/y"),
            ("[à-ü]", "e"),
        ],
        false,
    );
}

#[test]
fn two_negated_classes_can_leave_nothing() {
    let low = pattern("[^\u{1}-m]".as_bytes());
    let high = pattern(b"[^n-\xFF]");
    assert!(low.overlaps(&pattern("z")));
    assert!(high.overlaps(&pattern("a")));
    assert!(!low.overlaps(&high));
}

#[test]
fn a_class_of_what_no_name_can_hold_is_refused() {
    let texts: [&[u8]; 3] = [
        // all but NUL
        b"[^\x01-\xFF]",
        // all but NUL and `/`
        b"[^\x01-.0-\xFF]",
        // all but NUL and the surrogates
        b"[^\x01-\xED\x9F\xBF\xEE\x80\x80-\xFF]",
    ];
    for text in texts {
        let error = Pattern::parse(text).expect_err("no member");
        assert_eq!(*error.problem(), PatternProblem::ImpossibleClass);
    }
}

#[test]
fn double_stars_span_segments() {
    check_overlaps(
        &[
            ("**", "a"),
            ("**", "a/b/c"),
            ("src/**", "src/a"),
            ("src/**", "src/a/b"),
            ("a/**/b", "a/b"),
            ("a/**/b", "a/x/y/b"),
            ("**/b", "b"),
            ("**/*.rs", "lib.rs"),
            ("**/*.rs", "a/b/lib.rs"),
            ("**/**/a", "a"),
            ("a/**/**", "a/b"),
            ("a/**", "**/b"),
            ("a/**/c", "a/b/**"),
            ("**/a/**", "**/b/**"),
            ("**/a/b", "a/**/b"),
            ("*/**", "**/*/*"),
            ("src/**/*.rs", "src/core/**"),
            ("**/[ab]/?", "x/a*/**"),
        ],
        true,
    );
    check_overlaps(
        &[
            ("src/**", "src"),
            ("src/**", "srcs/a"),
            ("a/**/**", "a"),
            ("a/**/b", "a/b/c"),
            ("a/**/b", "b"),
            ("**/a", "**/b"),
            ("**/*.rs", "**/*.md"),
            ("a/**", "b/**"),
            ("*/**", "a"),
            ("**/a/b", "a/**/c"),
            ("src/**/*.rs", "src/core/*/README"),
            ("a/**/b/c", "**/b/d"),
        ],
        false,
    );
}

#[test]
fn stray_bytes_are_characters() {
    for text in [&b"?"[..], b"*", b"[^a]", b"[\xF0-\xFF]", b"\xFF", b"\\\xFF"] {
        assert!(pattern(text).matches(b"\xFF"), "{text:?}");
    }
    for text in [&b"??"[..], b"[a-z]", b"[^\xFF]", b"\xFE"] {
        assert!(!pattern(text).matches(b"\xFF"), "{text:?}");
    }
    // Cut off in the middle of a character: two stray bytes.
    assert!(pattern("??").matches(b"\xE2\x82"));
    // Escaping one byte of a character does not take it apart.
    assert!(pattern(b"\xC3\\\xA9*").matches("é".as_bytes()));
}

#[test]
fn no_wildcard_matches_the_root_of_the_scope() {
    for text in ["*", "**", "**/*", "[^a]*"] {
        assert!(!pattern(text).matches(b""), "{text}");
    }
    assert!(Pattern::literal(b"").matches(b""));
}

#[test]
fn text_is_normalised() {
    let table = [
        ("./a//b/./c/", "a/b/c"),
        ("a/**/**/b/", "a/**/b"),
        (r"\a\*", r"a\*"),
        ("[*]", r"\*"),
        (r"a\]", "a]"),
        ("./[!a]*.rs", "[!a]*.rs"),
        ("src/**", "src/**"),
    ];
    for (typed, normalised) in table {
        assert_eq!(Lossy(pattern(typed).text()).to_string(), normalised);
    }
    assert_eq!(Pattern::literal(b"a[0]/b").text(), br"a\[0]/b");
    assert_eq!(Pattern::literal(b"a[0]/b"), pattern(r"a\[0\]/b"));
}

#[test]
fn literal_parts_are_told_apart() {
    let table: [(&str, bool, &[u8]); 8] = [
        ("src/lib.rs", true, b"src/lib.rs"),
        (r"a\*/b", true, b"a*/b"),
        ("src/**", false, b"src"),
        ("src/a/*.rs", false, b"src/a"),
        ("src/a*/b", false, b"src"),
        ("src/**/b", false, b"src"),
        ("*.rs", false, b""),
        ("**", false, b""),
    ];
    for (text, literal, prefix) in table {
        let pattern = pattern(text);
        assert_eq!(pattern.is_literal(), literal, "{text}");
        assert_eq!(pattern.literal_prefix(), prefix, "{text}");
    }
}

#[test]
fn meta_bytes_are_found() {
    for text in ["*", "a?", "[", "]", "{", "}", r"\"] {
        assert!(has_meta(text.as_bytes()), "{text}");
    }
    assert!(!has_meta(b"src/lib-1.rs !^~\xFF"));
}

#[test]
fn patterns_are_shown_on_one_line() {
    assert_eq!(pattern(b"caf\xC3\xA9/\xFF*").to_string(), r"café/\xFF*");
    assert_eq!(Pattern::literal(b"a\nb").to_string(), r"a\nb");
}

#[test]
fn errors_name_the_pattern_and_the_fix() {
    let table: [(&[u8], &str); 25] = [
        (
            b"",
            "invalid pattern ``: it names no file; write a path such as `src/lib.rs`, or `**` for every file",
        ),
        (
            b"./.",
            "invalid pattern `./.`: it names no file; write a path such as `src/lib.rs`, or `**` for every file",
        ),
        (
            b"/etc/*",
            "invalid pattern `/etc/*`: it starts with `/`; write it relative to the top of the checkout",
        ),
        (
            b"a/../b",
            "invalid pattern `a/../b`: it contains `..`; write the path from the top of the checkout without `..`",
        ),
        (
            br"\../b",
            r"invalid pattern `\../b`: it contains `..`; write the path from the top of the checkout without `..`",
        ),
        (b"a\0b", r"invalid pattern `a\u{0}b`: it contains a NUL byte, which no path can; remove it"),
        (
            b"*.{rs,md}",
            r"invalid pattern `*.{rs,md}`: `{` is not supported; give one pattern per alternative, or write `\{` for the character",
        ),
        (
            b"a}",
            r"invalid pattern `a}`: `}` is not supported; give one pattern per alternative, or write `\}` for the character",
        ),
        (
            b"[a-z",
            r"invalid pattern `[a-z`: `[` is not closed before the next `/` or the end; add `]`, or write `\[` for the character",
        ),
        (
            b"[a/b]",
            r"invalid pattern `[a/b]`: `[` is not closed before the next `/` or the end; add `]`, or write `\[` for the character",
        ),
        (
            b"[]a",
            r"invalid pattern `[]a`: `[` is not closed before the next `/` or the end; add `]`, or write `\[` for the character",
        ),
        (
            b"[a-",
            r"invalid pattern `[a-`: `[` is not closed before the next `/` or the end; add `]`, or write `\[` for the character",
        ),
        (
            br"[a\",
            r"invalid pattern `[a\`: `[` is not closed before the next `/` or the end; add `]`, or write `\[` for the character",
        ),
        (
            b"x[]",
            r"invalid pattern `x[]`: a class is empty; list characters as in `[a-z]`, or write `\[` for the character",
        ),
        (
            b"[^]",
            r"invalid pattern `[^]`: a class is empty; list characters as in `[a-z]`, or write `\[` for the character",
        ),
        (
            b"[!]/a",
            r"invalid pattern `[!]/a`: a class is empty; list characters as in `[a-z]`, or write `\[` for the character",
        ),
        (
            b"[^\x01-\xFF]",
            r"invalid pattern `[^\u{1}-\xFF]`: a class matches no character; list fewer characters after its `^` or `!`",
        ),
        (
            b"[[:alpha:]]",
            "invalid pattern `[[:alpha:]]`: named classes such as `[:alpha:]` are not supported; write ranges such as `a-zA-Z`",
        ),
        (b"[z-a]", "invalid pattern `[z-a]`: the range `z-a` runs backwards; write `a-z`"),
        (
            b"[\xFF-\xC3\xA9]",
            r"invalid pattern `[\xFF-é]`: the range `\xFF-é` runs backwards; write `é-\xFF`",
        ),
        (
            br"a\",
            r"invalid pattern `a\`: a `\` has no character after it to escape; write `\\` for the character, or remove it",
        ),
        (
            br"a\/b",
            r"invalid pattern `a\/b`: a `\` has no character after it to escape; write `\\` for the character, or remove it",
        ),
        (
            b"a**",
            "invalid pattern `a**`: `**` must be a whole segment; write `**/*.rs` for every depth, or one `*` within a name",
        ),
        (
            b"**.rs",
            "invalid pattern `**.rs`: `**` must be a whole segment; write `**/*.rs` for every depth, or one `*` within a name",
        ),
        (
            b"***",
            "invalid pattern `***`: `**` must be a whole segment; write `**/*.rs` for every depth, or one `*` within a name",
        ),
    ];
    for (text, message) in table {
        let error = Pattern::parse(text).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn limits_name_their_value() {
    let table = [
        (
            "a".repeat(MAX_PATTERN_BYTES + 1),
            "it is longer than 4096 bytes; name a folder above it, as in `src/**`",
        ),
        (
            format!("{}/*", "a".repeat(MAX_WILDCARD_BYTES - 1)),
            "it has wildcards and is longer than 512 bytes; name a folder above it, as in `src/**`",
        ),
        (
            format!("{}*", "a/".repeat(MAX_WILDCARD_SEGMENTS)),
            "it has wildcards and more than 60 segments; name a folder above it, as in `src/**`",
        ),
        (
            format!("**{}", "/a".repeat(MAX_WILDCARD_SEGMENTS + 1)),
            "it has wildcards and more than 60 segments; name a folder above it, as in `src/**`",
        ),
        (
            format!("{}**", "a/".repeat(200)),
            "it has wildcards and more than 60 segments; name a folder above it, as in `src/**`",
        ),
        ("**/".repeat(20), "it has more than 8 `**` segments; one `**` already spans folders"),
        (
            format!("*{}", "a".repeat(MAX_WILDCARD_TOKENS)),
            "its segments with wildcards have more than 60 characters and wildcards together; \
             shorten them, for example to `*`",
        ),
        (
            format!("a[{}]", "ab".repeat(MAX_WILDCARD_TOKENS / 2)),
            "its segments with wildcards have more than 60 characters and wildcards together; \
             shorten them, for example to `*`",
        ),
    ];
    for (text, message) in table {
        let error = Pattern::parse(text.as_bytes()).expect_err(message);
        assert_eq!(error.problem().to_string(), message);
        assert!(error.pattern().len() <= 123, "{}", error.pattern());
    }
}

#[test]
fn the_limits_themselves_are_legal() {
    let table = [
        "a".repeat(MAX_PATTERN_BYTES),
        "a/".repeat(MAX_PATTERN_BYTES / 2),
        "]".repeat(MAX_PATTERN_BYTES),
        format!("{}/*", "a".repeat(MAX_WILDCARD_BYTES - 2)),
        format!("{}*", "a/".repeat(MAX_WILDCARD_SEGMENTS - 1)),
        format!("{}**", "a/".repeat(MAX_WILDCARD_SEGMENTS)),
        "**/a/".repeat(MAX_RECURSIVE_SEGMENTS),
        format!("*{}", "a".repeat(MAX_WILDCARD_TOKENS - 1)),
        "?".repeat(MAX_WILDCARD_TOKENS),
    ];
    for text in table {
        let pattern = pattern(&text);
        assert!(pattern.overlaps(&pattern), "{pattern}");
        assert_eq!(Pattern::parse(pattern.text()), Ok(pattern));
    }
}

#[test]
fn a_pattern_names_the_directories_that_its_paths_lie_in() {
    for (text, path, expected) in [
        ("gen/**", "gen", true),
        ("gen/**", "gen/x", false),
        ("gen/**", "ge", false),
        ("gen/a/*.rs", "gen", true),
        ("gen/a/*.rs", "gen/a", true),
        ("gen/a/*.rs", "gen/a/x.rs", false),
        ("gen/a.rs", "gen", true),
        ("gen/a.rs", "gen/a.rs", false),
        ("**/gen/*.rs", "gen", true),
        ("**/gen/*.rs", "x/y/gen", true),
        ("**/gen/*.rs", "x", false),
        ("src/**/*.rs", "src", true),
        ("src/**/*.rs", "src/x", false),
        ("v?/x/**", "v1", false),
        ("v?/x/**", "v1/x", true),
        ("v?/x/**", "v1/y", false),
        ("*/Cargo.toml", "notes.md", false),
        ("**/?/x", "a", false),
        ("**", "x", false),
    ] {
        assert_eq!(pattern(text).names_directory(path.as_bytes()), expected, "`{text}` and `{path}`");
        assert!(
            !expected || may_name_directory(pattern(text).text(), path.as_bytes()),
            "`{text}` and `{path}`"
        );
    }
}
