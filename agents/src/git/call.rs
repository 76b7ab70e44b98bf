//! A git command line taken apart.

/// Options of `git` itself that take the next argument with them.
const WITH_VALUE: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
    "--exec-path",
];

/// `git [options] verb rest`
#[derive(Debug, Clone)]
pub(crate) struct Call<'a> {
    pub(crate) verb: &'a str,
    pub(crate) rest: &'a [&'a str],
    /// `-C`, in order.
    pub(crate) folders: Vec<&'a str>,
    /// `-c` and `--config-env`: `key=value`.
    pub(crate) config: Vec<&'a str>,
    /// `--git-dir` or `--work-tree` is given.
    pub(crate) is_elsewhere: bool,
}

impl<'a> Call<'a> {
    /// Takes the arguments behind `git` apart. Nothing if they name no command.
    pub(crate) fn read(args: &'a [&'a str]) -> Option<Self> {
        let mut call =
            Self { verb: "", rest: &[], folders: Vec::new(), config: Vec::new(), is_elsewhere: false };
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            let (name, attached) = match arg.split_once('=') {
                Some((name, value)) if arg.starts_with("--") => (name, Some(value)),
                _ => (*arg, None),
            };
            let takes_next = WITH_VALUE.contains(&name) && attached.is_none() && name != "--exec-path";
            let value = if takes_next { args.get(at + 1).copied() } else { attached };
            match (name, value) {
                ("-C", Some(folder)) => call.folders.push(folder),
                ("-c" | "--config-env", Some(setting)) => call.config.push(setting),
                ("--git-dir" | "--work-tree", _) => call.is_elsewhere = true,
                _ if !name.starts_with('-') => {
                    call.verb = arg;
                    call.rest = &args[at + 1..];
                    return Some(call);
                }
                _ => {}
            }
            at += if takes_next { 2 } else { 1 };
        }
        None
    }

    /// True if one of these options is given: `-x` also as part of `-axb`.
    pub(crate) fn has(&self, options: &[&str]) -> bool {
        self.options().any(|arg| {
            options.iter().any(|option| match option.as_bytes() {
                [b'-', letter] => is_short(arg) && arg.as_bytes()[1..].contains(letter),
                _ => arg == *option || arg.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')),
            })
        })
    }

    /// True if the first plain word of the rest is one of these.
    pub(crate) fn begins(&self, words: &[&str]) -> bool {
        self.operands().first().is_some_and(|word| words.contains(word))
    }

    fn options(&self) -> impl Iterator<Item = &'a str> {
        self.rest.iter().copied().take_while(|arg| *arg != "--").filter(|arg| arg.starts_with('-'))
    }

    /// What is neither an option nor behind `--`. Values of options are among it.
    pub(crate) fn operands(&self) -> Vec<&'a str> {
        self.rest.iter().copied().take_while(|arg| *arg != "--").filter(|arg| !arg.starts_with('-')).collect()
    }

    /// What stands behind `--`, if there is one.
    pub(crate) fn behind_dashes(&self) -> Option<&'a [&'a str]> {
        self.rest.iter().position(|arg| *arg == "--").map(|at| &self.rest[at + 1..])
    }

    pub(crate) fn typed(&self) -> String {
        let words: Vec<&str> =
            std::iter::once("git").chain([self.verb]).chain(self.rest.iter().copied()).collect();
        words.join(" ")
    }
}

fn is_short(arg: &str) -> bool {
    arg.len() > 1 && !arg.starts_with("--")
}
