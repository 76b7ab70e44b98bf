//! A command's arguments told apart: options, their values, operands.

use super::expand::{Arg, Known};

pub(super) struct Options<'a> {
    given: Vec<(String, Option<Arg>)>,
    pub(super) operands: Vec<&'a Arg>,
    /// An argument may be an option that is not known.
    pub(super) doubtful: bool,
}

/// Which options take a value: `e:` one that must have it, `i?` one that may have it attached.
#[derive(Clone, Copy)]
pub(super) struct Syntax {
    pub(super) short: &'static str,
    pub(super) long: &'static [&'static str],
    /// The first operand ends the options, as for commands that start another.
    pub(super) in_order: bool,
}

pub(super) const PLAIN: Syntax = Syntax { short: "", long: &[], in_order: false };

impl Options<'_> {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// The values of these options, in order.
    pub(super) fn values(&self, names: &[&str]) -> impl Iterator<Item = &Arg> {
        let is_named = move |name: &String| names.contains(&name.as_str());
        self.given.iter().filter(move |(name, _)| is_named(name)).filter_map(|(_, value)| value.as_ref())
    }
}

/// Reads `args`, without the command's own name.
pub(super) fn read(args: &[Arg], syntax: Syntax) -> Options<'_> {
    let mut options = Options { given: Vec::new(), operands: Vec::new(), doubtful: false };
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if arg.is("--") {
            options.operands.extend(&args[at..]);
            break;
        }
        options.doubtful |= arg.may_be_option();
        let is_option = arg.text.len() > 1 && arg.text.starts_with('-');
        if !is_option {
            options.operands.push(arg);
            if syntax.in_order {
                options.operands.extend(&args[at..]);
                break;
            }
        } else if let Some(long) = arg.text.strip_prefix("--") {
            let (name, value) = match long.find('=') {
                Some(equals) => (&long[..equals], Some(arg.tail(equals + 3))),
                None if syntax.long.contains(&long) => {
                    at += 1;
                    (long, args.get(at - 1).cloned())
                }
                None => (long, None),
            };
            options.given.push((name.to_owned(), value));
        } else {
            at += cluster(&mut options, arg, args.get(at), syntax);
        }
    }
    options
}

/// `-abc`; how many further arguments it takes.
fn cluster(options: &mut Options<'_>, arg: &Arg, next: Option<&Arg>, syntax: Syntax) -> usize {
    for (at, char) in arg.text.char_indices().skip(1) {
        let kind =
            syntax.short.find(char).and_then(|found| syntax.short[found + char.len_utf8()..].chars().next());
        let rest = at + char.len_utf8();
        let attached = (rest < arg.text.len() || arg.known == Known::Head).then(|| arg.tail(rest));
        match kind {
            Some(':') if attached.is_none() => {
                options.given.push((char.to_string(), next.cloned()));
                return 1;
            }
            Some(':' | '?') => {
                options.given.push((char.to_string(), attached));
                return 0;
            }
            _ => options.given.push((char.to_string(), None)),
        }
    }
    0
}
