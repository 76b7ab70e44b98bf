//! A second opinion on what a pattern matches: naive, backtracking, and sharing no code with the
//! module. It reads legal pattern text only.

/// Whether the pattern `text` matches `path`.
pub(super) fn naive_matches(text: &[u8], path: &[u8]) -> bool {
    let pattern: Vec<&[u8]> = text.split(|&b| b == b'/').filter(|s| !s.is_empty() && *s != b".").collect();
    let path: Vec<&[u8]> = path.split(|&b| b == b'/').collect();
    segments_match(&pattern, &path)
}

fn segments_match(pattern: &[&[u8]], path: &[&[u8]]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b"**"] => !path.is_empty(),
        [b"**", rest @ ..] => (0..=path.len()).any(|skip| segments_match(rest, &path[skip..])),
        [first, rest @ ..] => {
            let Some((name, deeper)) = path.split_first() else {
                return false;
            };
            name_matches(&units(first), &units(name)) && segments_match(rest, deeper)
        }
    }
}

/// Splits bytes into the shortest valid UTF-8 pieces, and single bytes where there is none.
fn units(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = bytes;
    let mut units = Vec::new();
    while !rest.is_empty() {
        let valid = (1..=rest.len().min(4)).find(|&n| std::str::from_utf8(&rest[..n]).is_ok());
        let (unit, tail) = rest.split_at(valid.unwrap_or(1));
        units.push(unit);
        rest = tail;
    }
    units
}

fn name_matches(pattern: &[&[u8]], name: &[&[u8]]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b"*", rest @ ..] => (0..=name.len()).any(|skip| name_matches(rest, &name[skip..])),
        [b"?", rest @ ..] => !name.is_empty() && name_matches(rest, &name[1..]),
        [b"[", rest @ ..] => {
            let close = 1 + rest[1..].iter().position(|u| *u == b"]").expect("closed");
            let Some((unit, deeper)) = name.split_first() else {
                return false;
            };
            class_matches(&rest[..close], unit) && name_matches(&rest[close + 1..], deeper)
        }
        [b"\\", literal, rest @ ..] | [literal, rest @ ..] => {
            name.first() == Some(literal) && name_matches(rest, &name[1..])
        }
    }
}

/// Classes without escapes and without a `]` behind a negation, which is all the generators write.
fn class_matches(class: &[&[u8]], unit: &[u8]) -> bool {
    match class {
        [b"^" | b"!", members @ ..] => !members_match(members, unit),
        members => members_match(members, unit),
    }
}

fn members_match(members: &[&[u8]], unit: &[u8]) -> bool {
    // A stray byte sorts after every scalar; among scalars, UTF-8 sorts like the scalars do.
    let order = |u: &[u8]| (std::str::from_utf8(u).is_err(), u.to_vec());
    match members {
        [] => false,
        [low, b"-", high, rest @ ..] => {
            (order(low)..=order(high)).contains(&order(unit)) || members_match(rest, unit)
        }
        [member, rest @ ..] => *member == unit || members_match(rest, unit),
    }
}
