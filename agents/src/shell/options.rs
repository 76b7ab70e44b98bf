//! A command's arguments told apart: options, their values, operands.

use super::expand::{Arg, Known};

pub(super) struct Options<'a> {
    given: Vec<(String, Option<Arg>)>,
    pub(super) operands: Vec<&'a Arg>,
    /// The first argument that is, or may be, an option that the program is not known to have.
    pub(super) stranger: Option<&'a Arg>,
}

/// Which options are known, in the words of [`super::table`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Syntax {
    pub(super) options: &'static str,
    /// The first operand ends the options, as for commands that start another.
    pub(super) in_order: bool,
}

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// The rest of the word, or the next word.
    Value,
    /// The rest of the word, if there is one.
    Attached,
}

impl Syntax {
    fn words(self) -> impl Iterator<Item = &'static str> {
        self.options.split_whitespace()
    }

    /// True if options that are not listed are known as well.
    fn is_open(self) -> bool {
        self.words().any(|word| word == "*")
    }

    /// True for a program that is never harmless.
    pub(super) fn is_doubtful(self) -> bool {
        self.words().any(|word| word == "!")
    }

    fn stand_alone(self) -> bool {
        self.words().any(|word| word == "~")
    }

    fn short(self, letter: char) -> Option<Takes> {
        let mut clusters = self.words().filter(|word| !word.starts_with("--"));
        clusters.find_map(|word| {
            let after = word.strip_prefix('-')?.split_once(letter).filter(|_| letter.is_alphanumeric())?.1;
            Some(match after.as_bytes().first() {
                Some(b':') => Takes::Value,
                Some(b'?') => Takes::Attached,
                _ => Takes::Nothing,
            })
        })
    }

    fn long(self, name: &str) -> Option<Takes> {
        self.words().find_map(|word| {
            let (listed, takes) = match word.as_bytes().last() {
                Some(b'=') => (&word[..word.len() - 1], Takes::Value),
                Some(b'?') => (&word[..word.len() - 1], Takes::Attached),
                _ => (word, Takes::Nothing),
            };
            (listed.strip_prefix("--") == Some(name)).then_some(takes)
        })
    }

    fn has_number(self, arg: &Arg) -> bool {
        let is_number = arg.text[1..].bytes().all(|byte| byte.is_ascii_digit());
        is_number && arg.known == Known::All && self.words().any(|word| word == "-#")
    }
}

impl<'a> Options<'a> {
    pub(super) fn with_operands(self, operands: &'a [Arg]) -> Self {
        Self { operands: operands.iter().collect(), ..self }
    }

    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// The values of these options, in order.
    pub(super) fn values(&self, names: &[&str]) -> impl Iterator<Item = &Arg> {
        let is_named = move |name: &String| names.contains(&name.as_str());
        self.given.iter().filter(move |(name, _)| is_named(name)).filter_map(|(_, value)| value.as_ref())
    }
}

/// Reads `args`, without the command's own name. What is not known is taken for a flag.
pub(super) fn read(args: &[Arg], syntax: Syntax) -> Options<'_> {
    let mut options = Options { given: Vec::new(), operands: Vec::new(), stranger: None };
    let is_open = syntax.is_open();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if arg.is("--") {
            options.operands.extend(&args[at..]);
            break;
        }
        let mut is_strange = arg.may_be_option();
        let is_option = arg.text.len() > 1 && arg.text.starts_with('-');
        if !is_option {
            options.operands.push(arg);
            if syntax.in_order {
                options.operands.extend(&args[at..]);
                at = args.len();
            }
        } else if let Some(long) = arg.text.strip_prefix("--") {
            let (name, attached) = match long.find('=') {
                Some(equals) => (&long[..equals], Some(arg.tail(equals + 3))),
                None => (long, None),
            };
            let takes = syntax.long(name);
            is_strange = takes.is_none() || (attached.is_none() && arg.known != Known::All);
            let value = match (takes, attached) {
                (Some(Takes::Value), None) => {
                    at += 1;
                    args.get(at - 1).cloned()
                }
                (Some(Takes::Nothing), Some(value)) => {
                    is_strange = true;
                    Some(value)
                }
                (_, attached) => attached,
            };
            options.given.push((name.to_owned(), value));
        } else if syntax.has_number(arg) {
            is_strange = false;
        } else {
            let cluster = cluster(&mut options, arg, args.get(at), syntax);
            at += cluster.taken;
            is_strange = cluster.is_strange || (syntax.stand_alone() && arg.text.len() > 2);
        }
        if is_strange && !is_open {
            options.stranger = options.stranger.or(Some(arg));
        }
    }
    options
}

struct Cluster {
    /// Further arguments it takes.
    taken: usize,
    is_strange: bool,
}

/// `-abc`
fn cluster(options: &mut Options<'_>, arg: &Arg, next: Option<&Arg>, syntax: Syntax) -> Cluster {
    let mut is_strange = false;
    for (at, char) in arg.text.char_indices().skip(1) {
        let takes = syntax.short(char);
        let rest = at + char.len_utf8();
        let attached = (rest < arg.text.len() || arg.known == Known::Head).then(|| arg.tail(rest));
        match takes {
            Some(Takes::Value) if attached.is_none() => {
                options.given.push((char.to_string(), next.cloned()));
                return Cluster { taken: 1, is_strange };
            }
            Some(Takes::Value | Takes::Attached) => {
                options.given.push((char.to_string(), attached));
                return Cluster { taken: 0, is_strange };
            }
            _ => options.given.push((char.to_string(), None)),
        }
        is_strange |= takes.is_none();
    }
    Cluster { taken: 0, is_strange: is_strange || arg.known != Known::All }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strange(options: &'static str, args: &[&str]) -> Option<String> {
        let args: Vec<Arg> = args.iter().map(|text| Arg::literal(*text)).collect();
        read(&args, Syntax { options, in_order: false }).stranger.map(|arg| arg.text.clone())
    }

    #[test]
    fn an_option_that_is_not_listed_is_found_wherever_it_hides() {
        let listed = "-ab:i? -# --all --lines= --color?";
        for known in [
            &["-a", "-b", "-x"][..],
            &["-ab-x"],
            &["-ix", "--lines", "--odd", "--lines=5", "--color", "--color=never"],
            &["-15", "file", "--", "--odd"],
        ] {
            assert_eq!(strange(listed, known), None, "{known:?}");
        }
        for (args, odd) in
            [(&["-ax"][..], "-ax"), (&["--li=5"], "--li=5"), (&["--all=5"], "--all=5"), (&["f", "-c"], "-c")]
        {
            assert_eq!(strange(listed, args).as_deref(), Some(odd));
        }
        assert_eq!(strange("*", &["--odd", "-xyz"]), None);
        assert_eq!(strange("~ -ps:", &["-ps", "file"]).as_deref(), Some("-ps"));
    }
}
