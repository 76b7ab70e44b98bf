//! Programs that start another program.

use super::expand::{Arg, Known};
use super::notes::typed;
use super::options::{self, Syntax};
use super::walk::{Start, Walker};

/// How the command behind a wrapper is found.
struct Wrapper {
    names: &'static [&'static str],
    syntax: Syntax,
    /// Operands in front of the command: `timeout 10 CMD`.
    skip: usize,
}

const fn wrapper(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
) -> Wrapper {
    Wrapper { names, syntax: Syntax { short, long, in_order: true }, skip: 0 }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(&["sudo", "doas"], "u:g:h:p:C:r:t:T:U:D:R:", &["user", "group", "host", "prompt", "chdir"]),
    wrapper(&["nice"], "n:", &["adjustment"]),
    wrapper(&["ionice"], "c:n:p:", &["class", "classdata"]),
    wrapper(
        &["nohup", "setsid", "chronic", "unbuffer", "caffeinate", "exec", "command", "builtin", "busybox"],
        "a:",
        &[],
    ),
    wrapper(&["stdbuf"], "i:o:e:", &["input", "output", "error"]),
    wrapper(&["time"], "f:", &["format"]),
    wrapper(&["uvx", "npx", "bunx", "pnpx"], "p:", &["package", "from", "with", "python"]),
    Wrapper {
        names: &["timeout", "gtimeout"],
        syntax: Syntax { short: "k:s:", long: &["kill-after", "signal"], in_order: true },
        skip: 1,
    },
    Wrapper {
        names: &["flock"],
        syntax: Syntax { short: "w:E:", long: &["timeout", "wait"], in_order: true },
        skip: 1,
    },
    Wrapper { names: &["chrt", "taskset"], syntax: Syntax { short: "", long: &[], in_order: true }, skip: 1 },
];

/// `TOOL VERB command`: tools that run a command in an environment of theirs.
const RUNNERS: &[(&str, &[&str])] = &[
    ("uv", &["run"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("pdm", &["run"]),
    ("hatch", &["run"]),
    ("rye", &["run"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("npm", &["exec"]),
    ("bundle", &["exec"]),
    ("mise", &["exec", "x"]),
];

const RUNNER: Syntax = Syntax {
    short: "p:",
    long: &[
        "with",
        "python",
        "group",
        "extra",
        "package",
        "project",
        "directory",
        "env-file",
        "with-requirements",
        "only-group",
    ],
    in_order: true,
};

impl Walker<'_> {
    /// Judges what is behind a wrapper; false if `name` is none.
    pub(super) fn wrapper(&mut self, name: &str, start: &Start<'_>, args: &[Arg]) -> bool {
        match name {
            "env" => self.env(start, args),
            "xargs" => self.xargs(start, args),
            "find" | "fd" | "fdfind" => return self.find(name, start, args),
            "mala" => self.own(start, args),
            "strace" | "ltrace" => self.unknown(&typed(args), "mala does not know what it writes"),
            "watch" | "script" | "parallel" | "chroot" | "unshare" => {
                self.unknown(&format!("{name} {}", typed(args)), "it runs text that is not followed");
            }
            _ => {
                let Some(inner) = behind(name, args) else { return false };
                self.behind_wrapper(name, start, inner, args);
            }
        }
        true
    }

    fn behind_wrapper(&mut self, name: &str, start: &Start<'_>, inner: Inner<'_>, args: &[Arg]) {
        match inner {
            Inner::Unclear => self.unknown(&format!("{name} {}", typed(args)), "what it starts is not known"),
            Inner::Command([]) => {}
            Inner::Command(command) => {
                // The shell itself runs these three; a prefix in front of them would look for a program.
                let is_builtin = matches!(name, "exec" | "command" | "builtin");
                let spot = match (&start.spot, command[0].span.as_ref()) {
                    (Some(whole), Some(inner)) if is_builtin => Some(inner.start..whole.end),
                    (_, None) if is_builtin => None,
                    (spot, _) => spot.clone(),
                };
                self.inner(start, command, spot);
            }
        }
    }

    fn inner(&mut self, start: &Start<'_>, command: &[Arg], spot: Option<std::ops::Range<usize>>) {
        let mut state = start.state.clone();
        let inner = Start {
            state: &mut state,
            env: start.env.clone(),
            stdin: start.stdin.clone(),
            spot,
            is_guarded: start.is_guarded,
        };
        self.run(inner, command);
    }

    /// `env [-i] [-u NAME] [-C DIR] [-S TEXT] [NAME=VALUE]... [COMMAND]`
    fn env(&mut self, start: &Start<'_>, args: &[Arg]) {
        let syntax = Syntax { short: "u:C:S:", long: &["unset", "chdir", "split-string"], in_order: true };
        let options = options::read(args, syntax);
        if options.has(&["S", "split-string", "C", "chdir"]) {
            return self.unknown(&format!("env {}", typed(args)), "what it starts is not known");
        }
        let is_setting = |arg: &&&Arg| {
            arg.text.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            })
        };
        let settings: Vec<&Arg> = options.operands.iter().take_while(is_setting).copied().collect();
        let command: Vec<Arg> = options.operands[settings.len()..].iter().map(|arg| (*arg).clone()).collect();
        let mut env = start.env.clone();
        env.extend(
            settings.iter().filter_map(|arg| arg.text.split_once('=').map(|(name, _)| name.to_owned())),
        );
        let mut state = start.state.clone();
        let inner = Start {
            state: &mut state,
            env,
            stdin: start.stdin.clone(),
            spot: start.spot.clone(),
            is_guarded: start.is_guarded,
        };
        self.run(inner, &command);
    }

    /// What `xargs` adds is not known; what it starts is.
    fn xargs(&mut self, start: &Start<'_>, args: &[Arg]) {
        let syntax = Syntax {
            short: "I:i?n:P:L:l?d:s:E:e?a:",
            long: &["max-args", "max-procs", "delimiter", "arg-file", "replace", "max-lines"],
            in_order: true,
        };
        let options = options::read(args, syntax);
        let replaced =
            options.values(&["I", "replace"]).next().and_then(Arg::as_literal).unwrap_or("{}").to_owned();
        let mut command: Vec<Arg> = options.operands.iter().map(|arg| (*arg).clone()).collect();
        if command.is_empty() {
            return;
        }
        for arg in &mut command {
            if let Some(at) = arg.text.find(&replaced).filter(|_| arg.known == Known::All) {
                arg.text.truncate(at);
                arg.known = Known::Head;
            }
        }
        command.push(Arg { text: "?".to_owned(), known: Known::Head, span: None });
        self.inner(start, &command, start.spot.clone());
    }

    /// `find` itself: what it deletes, and what it starts for what it finds.
    fn find(&mut self, name: &str, start: &Start<'_>, args: &[Arg]) -> bool {
        let is_expression = |arg: &&Arg| !(arg.text.starts_with('-') || arg.is("(") || arg.is("!"));
        let mut roots: Vec<Arg> = args.iter().take_while(is_expression).cloned().collect();
        if roots.is_empty() || name != "find" {
            roots = vec![Arg::literal(".")];
        }
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.text.as_str() {
                "-delete" => roots.iter().for_each(|root| self.write_tree(root, start.state)),
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch" => {
                    let length = args[at..].iter().position(|arg| arg.is(";") || arg.is("+"));
                    let command = &args[at..length.map_or(args.len(), |length| at + length)];
                    at += command.len();
                    self.for_each_found(start, &roots, command);
                }
                "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                    if let Some(file) = args.get(at) {
                        self.write(file, start.state);
                    }
                }
                _ if arg.may_be_option() => {
                    self.unknown(&format!("{name} {}", typed(args)), "its options are not known");
                }
                _ => {}
            }
        }
        true
    }

    fn for_each_found(&mut self, start: &Start<'_>, roots: &[Arg], command: &[Arg]) {
        for root in roots {
            let found = match root.known {
                Known::All => {
                    let text = root.text.replace(['*', '?', '[', ']', '\\'], "?");
                    Arg {
                        text: format!("{}/**", text.trim_end_matches('/')),
                        known: Known::Pattern,
                        span: None,
                    }
                }
                Known::Pattern => {
                    Arg { text: format!("{}/**", root.text), known: Known::Pattern, span: None }
                }
                Known::Head => Arg { text: "?".to_owned(), known: Known::Head, span: None },
            };
            let mut command = command.to_vec();
            for arg in &mut command {
                if arg.is("{}") {
                    *arg = found.clone();
                } else if arg.text.contains("{}") {
                    arg.known = Known::Head;
                    arg.text.truncate(arg.text.find("{}").unwrap_or(0));
                }
            }
            self.inner(start, &command, start.spot.clone());
        }
    }

    /// mala's own commands are harmless; what they start is judged, but guarded already.
    fn own(&mut self, start: &Start<'_>, args: &[Arg]) {
        let Some(dashes) = args.iter().position(|arg| arg.is("--")) else { return };
        if !args.first().is_some_and(|verb| verb.is("test") || verb.is("exec")) {
            return;
        }
        let mut state = start.state.clone();
        let inner = Start {
            state: &mut state,
            env: start.env.clone(),
            stdin: start.stdin.clone(),
            spot: None,
            is_guarded: !args[0].is("test"),
        };
        self.run(inner, &args[dashes + 1..]);
    }
}

#[derive(Clone, Copy)]
enum Inner<'a> {
    Command(&'a [Arg]),
    Unclear,
}

/// The command behind the wrapper `name`; nothing if it is no wrapper.
fn behind<'a>(name: &str, args: &'a [Arg]) -> Option<Inner<'a>> {
    if let Some((_, verbs)) = RUNNERS.iter().find(|(tool, _)| *tool == name) {
        let verb = args.iter().position(|arg| !arg.text.starts_with('-'))?;
        if !verbs.iter().any(|word| args[verb].is(word)) {
            return None;
        }
        return Some(last_operands(&args[verb + 1..], RUNNER, 0));
    }
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name))?;
    // `command -v NAME` only looks it up.
    if name == "command" && args.first().is_some_and(|arg| arg.is("-v") || arg.is("-V")) {
        return Some(Inner::Command(&[]));
    }
    if name == "time"
        && args.iter().take_while(|arg| arg.text.starts_with('-')).any(|arg| arg.text.starts_with("-o"))
    {
        return Some(Inner::Unclear);
    }
    if name == "flock" && args.iter().any(|arg| arg.is("-c")) {
        return Some(Inner::Unclear);
    }
    Some(last_operands(args, wrapper.syntax, wrapper.skip))
}

fn last_operands(args: &[Arg], syntax: Syntax, skip: usize) -> Inner<'_> {
    let options = options::read(args, syntax);
    if options.doubtful && options.operands.first().is_none_or(|first| first.may_be_option()) {
        return Inner::Unclear;
    }
    let count = options.operands.len().saturating_sub(skip);
    let mut command = &args[args.len() - count..];
    // `sudo A=b cmd`, `npx -- cmd`
    while command
        .first()
        .is_some_and(|arg| arg.is("--") || (arg.text.contains('=') && !arg.text.starts_with('-')))
    {
        command = &command[1..];
    }
    Inner::Command(command)
}
