//! Programs that start another program.

use super::expand::{Arg, Known};
use super::notes::typed;
use super::programs::{Call, HOOKS, NOT_KNOWN};
use super::variables::is_name;
use super::walk::{Start, Walker};

/// mala's own commands that keep to the locks, and start nothing of others.
const OWN: &[&str] =
    &["diff", "gate", "help", "issue", "lock", "logs", "msg", "queue", "status", "wait", "whoami"];

/// What `find` looks at and prints. A name that ends in `=` takes a value.
const FIND: &[&str] = &[
    "-H",
    "-L",
    "-P",
    "(",
    ")",
    "!",
    ",",
    "-not",
    "-a",
    "-and",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-true",
    "-false",
    "-empty",
    "-depth",
    "-d",
    "-xdev",
    "-mount",
    "-follow",
    "-daystart",
    "-noleaf",
    "-readable",
    "-writable",
    "-executable",
    "-nouser",
    "-nogroup",
    "-ignore_readdir_race",
    "-name=",
    "-iname=",
    "-path=",
    "-ipath=",
    "-wholename=",
    "-regex=",
    "-iregex=",
    "-regextype=",
    "-type=",
    "-xtype=",
    "-size=",
    "-mtime=",
    "-mmin=",
    "-ctime=",
    "-cmin=",
    "-atime=",
    "-amin=",
    "-newer=",
    "-anewer=",
    "-cnewer=",
    "-newermt=",
    "-maxdepth=",
    "-mindepth=",
    "-printf=",
    "-perm=",
    "-user=",
    "-group=",
    "-uid=",
    "-gid=",
    "-links=",
    "-inum=",
    "-samefile=",
    "-lname=",
    "-ilname=",
    "-used=",
];

impl Walker<'_> {
    /// Judges what is behind a wrapper's own options and its first `skip` operands.
    pub(super) fn starts(&mut self, start: &Start<'_>, call: &Call<'_>, skip: usize) {
        // These only look a name up.
        if call.name == "command" && call.options.has(&["v", "V"]) {
            return;
        }
        if call.name == "flock" && call.options.has(&["c"]) {
            return;
        }
        let count = call.options.operands.len().saturating_sub(skip);
        let mut command = &call.args[call.args.len() - count..];
        let mut state = start.state.clone();
        let mut start = start.beneath(&mut state);
        // `sudo A=b cmd`, `npx -- cmd`
        while let Some(first) = command.first() {
            match first.text.split_once('=').filter(|_| !first.text.starts_with('-')) {
                Some((name, _)) => {
                    let value = first.tail(name.len() + 1);
                    self.note_exported(name, &value);
                    start.env.push((name.to_owned(), value));
                }
                None if first.is("--") => {}
                None => break,
            }
            command = &command[1..];
        }
        let Some(first) = command.first() else { return };
        // The shell itself runs these three; a prefix in front of them would look for a program.
        if matches!(call.name, "exec" | "command" | "builtin") {
            start.spot = match (&start.spot, first.span.as_ref()) {
                (Some(whole), Some(inner)) => Some(inner.start..whole.end),
                _ => None,
            };
        }
        self.run(start, command);
    }

    fn inner(&mut self, start: &Start<'_>, command: &[Arg]) {
        let mut state = start.state.clone();
        self.run(start.beneath(&mut state), command);
    }

    /// `env [-i] [-u NAME] [NAME=VALUE]... [COMMAND]`
    pub(super) fn env(&mut self, start: &Start<'_>, call: &Call<'_>) {
        if call.options.has(&["S", "split-string", "C", "chdir"]) {
            return self.unknown(&typed(call.all), "what it starts is not known");
        }
        let setting = |arg: &Arg| {
            let name = arg.text.split_once('=').map(|(name, _)| name.to_owned()).filter(|name| is_name(name));
            name.map(|name| (name.clone(), arg.tail(name.len() + 1)))
        };
        let settings: Vec<(String, Arg)> =
            call.options.operands.iter().map_while(|arg| setting(arg)).collect();
        let command: Vec<Arg> =
            call.options.operands[settings.len()..].iter().map(|arg| (*arg).clone()).collect();
        if !command.is_empty() {
            settings.iter().for_each(|(name, value)| self.note_exported(name, value));
        }
        let mut state = start.state.clone();
        let mut inner = start.beneath(&mut state);
        inner.env.extend(settings);
        self.run(inner, &command);
    }

    /// What `xargs` adds is not known; what it starts is.
    pub(super) fn xargs(&mut self, start: &Start<'_>, call: &Call<'_>) {
        let options = &call.options;
        let replaced = options
            .values(&["I", "i", "replace"])
            .next()
            .and_then(Arg::as_literal)
            .unwrap_or("{}")
            .to_owned();
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
        command.push(Arg::unknown());
        self.inner(start, &command);
    }

    /// `find`: what it deletes and writes, and what it starts for what it finds.
    pub(super) fn find(&mut self, start: &Start<'_>, args: &[Arg]) {
        let quote = || format!("find {}", typed(args));
        let is_root = |arg: &&Arg| !(arg.text.starts_with('-') || arg.is("(") || arg.is("!"));
        let leading =
            args.iter().take_while(|arg| ["-H", "-L", "-P"].iter().any(|known| arg.is(known))).count();
        let mut roots: Vec<Arg> = args[leading..].iter().take_while(is_root).cloned().collect();
        let mut at = leading + roots.len();
        if roots.iter().any(Arg::may_be_option) {
            self.unknown(&quote(), "its options are not known");
        }
        if roots.is_empty() {
            roots = vec![Arg::literal(".")];
        }
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.text.as_str() {
                "-delete" => roots.iter().for_each(|root| self.write_tree(root, start.state)),
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let command = exec_command(&args[at..]);
                    at += command.len() + 1;
                    let is_elsewhere = arg.text.ends_with("dir");
                    self.for_each_found(start, &roots, command, is_elsewhere);
                }
                "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                    let taken = 1 + usize::from(arg.is("-fprintf"));
                    if let Some(file) = args.get(at) {
                        self.write(file, start.state);
                    }
                    at += taken;
                }
                text if arg.known == Known::All && FIND.contains(&text) => {}
                text if arg.known == Known::All
                    && FIND.iter().any(|known| known.strip_suffix('=') == Some(text)) =>
                {
                    at += 1;
                }
                _ => self.unknown(&quote(), "its options are not known"),
            }
        }
    }

    /// `fd` starts what stands behind `-x` and `-X`, which take the rest of the line.
    pub(super) fn fd(&mut self, start: &Start<'_>, call: &Call<'_>) {
        let starts = |arg: &Arg| ["-x", "-X", "--exec", "--exec-batch"].iter().any(|option| arg.is(option));
        if let Some(at) = call.args.iter().position(starts) {
            self.for_each_found(start, &[Arg::literal(".")], &call.args[at + 1..], false);
        }
    }

    fn for_each_found(&mut self, start: &Start<'_>, roots: &[Arg], command: &[Arg], is_elsewhere: bool) {
        let mut state = start.state.clone();
        if is_elsewhere {
            state.enter(Vec::new());
        }
        let start = start.beneath(&mut state);
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
            self.inner(&start, &command);
        }
    }

    /// mala's own commands keep to the locks; what they start is judged, but guarded already.
    pub(super) fn own(&mut self, start: &Start<'_>, call: &Call<'_>) {
        let verb = call.args.first().and_then(Arg::as_literal).unwrap_or_default();
        let dashes = call.args.iter().position(|arg| arg.is("--"));
        match (verb, dashes) {
            ("test" | "exec", Some(dashes)) => {
                let mut state = start.state.clone();
                let mut inner = start.beneath(&mut state);
                inner.spot = None;
                inner.is_guarded &= verb != "test";
                self.run(inner, &call.args[dashes + 1..]);
            }
            ("commit", _) => self.unknown(&typed(call.all), HOOKS),
            _ if OWN.contains(&verb) => {}
            _ => self.unknown(&typed(call.all), NOT_KNOWN),
        }
    }
}

/// The command of `-exec`: up to `;`, or to the `+` behind a `{}`.
fn exec_command(args: &[Arg]) -> &[Arg] {
    let ends = |at: usize| args[at].is(";") || (args[at].is("+") && at > 0 && args[at - 1].is("{}"));
    let end = (0..args.len()).find(|at| ends(*at)).unwrap_or(args.len());
    &args[..end]
}
