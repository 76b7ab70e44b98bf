//! Which program does what: the way from a command's name to its judgement.

use std::path::Path;

use super::expand::{Arg, Known};
use super::notes::typed;
use super::options::{self, Options};
use super::state::State;
use super::table::{self, Program, Role, Special};
use super::variables::is_name;
use super::walk::{Start, Stdin, Walker, is_integer};
use crate::git;
use crate::objection::Objection;

/// Where programs are installed for everybody.
const BIN_FOLDERS: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
    "/snap/bin",
];

/// Shells whose grammar is not that of bash, which is how they are read.
const OTHER_SHELLS: &[&str] = &["zsh", "ksh", "mksh"];

pub(super) const NOT_KNOWN: &str = "mala does not know what it writes";
pub(super) const HOOKS: &str = "it runs the repository's hooks, and mala does not know what they write";

/// One command, its program first.
pub(super) struct Call<'c> {
    pub(super) name: &'c str,
    /// All of it, for words.
    pub(super) all: &'c [Arg],
    /// Behind the program, or behind the command of a program.
    pub(super) args: &'c [Arg],
    pub(super) options: Options<'c>,
}

impl Walker<'_> {
    /// Judges one command, the program first. True if it surely succeeds.
    pub(super) fn run(&mut self, start: Start<'_>, args: &[Arg]) -> bool {
        let Some((program, rest)) = args.split_first() else { return true };
        let is_test = self.around.tests.iter().any(|pattern| pattern.matches(&texts_of(args)));
        // What `mala test` runs is recorded together with what it changed.
        let is_recorded = is_test && (!start.is_guarded || start.spot.is_some());
        let Some(name) = self.program_name(program, args, is_recorded) else { return false };
        let function = start.state.function(&name).filter(|_| start.may_be_function && program.is(&name));
        if let Some(Some(function)) = function {
            self.call(&function, start, args);
            return false;
        }
        if function.is_some() {
            self.unknown(&typed(args), "it is a function, or a program");
        }
        if start.is_guarded && is_test {
            self.test(args, start.spot.clone());
        }
        let Some((known, rest)) = command_of(&name, rest).filter(|(known, _)| known.role != Role::Opaque)
        else {
            let is_harmless = is_recorded || (table::find(&name).is_some() && asks_for_help(rest));
            if !is_harmless {
                self.unknown(&typed(args), NOT_KNOWN);
            }
            return false;
        };
        if asks_for_help(rest) && !matches!(known.role, Role::Special(Special::Source | Special::Eval)) {
            return true;
        }
        let call = Call { name: &name, all: args, args: rest, options: options::read(rest, known.syntax) };
        self.known(known, start, &call)
    }

    /// Judges a command whose program is known.
    fn known(&mut self, program: &Program, start: Start<'_>, call: &Call<'_>) -> bool {
        let reads_itself =
            matches!(program.role, Role::Special(Special::Find | Special::Git | Special::Github));
        if let Some(option) = call.options.stranger.filter(|_| !reads_itself) {
            self.unknown(
                &typed(call.all),
                &format!("mala does not know what `{}` does there", typed(std::slice::from_ref(option))),
            );
        }
        if program.syntax.is_doubtful() {
            self.unknown(&typed(call.all), "it runs code that is not read");
        }
        match program.role {
            Role::Special(special) => return self.special(special, start, call),
            Role::Starts { skip } => self.starts(&start, call, skip),
            role => return self.plain(role, call, start.state),
        }
        false
    }

    fn special(&mut self, special: Special, mut start: Start<'_>, call: &Call<'_>) -> bool {
        let name = call.name;
        match special {
            Special::ChangesFolder => return self.change_folder(call, start.state),
            Special::Declares => self.declare(call, start.state),
            Special::Assigns => self.forget(call, start.state),
            Special::Set => return self.set(call, start.state),
            Special::Shopt => self.shopt(call),
            Special::Shift => start.state.forget_positional(),
            Special::Tests => self.tests(call.args),
            Special::MakesFolder => {
                self.makes_folders = true;
                return true;
            }
            Special::Git => self.git(&start, call.args),
            Special::Github => self.github(&start, call),
            Special::Eval => self.eval(&mut start, call.args),
            Special::Trap => self.trap(&start, call),
            Special::Source => self.unknown(&typed(call.all), "it runs a script"),
            Special::Shell => self.shell(start, call),
            Special::Interpreter => self.interpreter(&start, call),
            Special::Env => self.env(&start, call),
            Special::Xargs => self.xargs(&start, call),
            Special::Find => self.find(&start, call.args),
            Special::Fd => self.fd(&start, call),
            Special::Mala => self.own(&start, call),
            _ => self.writer(special, name, &start, call),
        }
        false
    }

    /// The program's plain name; what cannot be named is noted as unknown.
    fn program_name(&mut self, program: &Arg, args: &[Arg], is_recorded: bool) -> Option<String> {
        let Some(text) = program.as_literal() else {
            self.unknown(&typed(args), "the name of the program is not known");
            return None;
        };
        let Some((folder, name)) = text.rsplit_once('/') else { return Some(text.to_owned()) };
        if BIN_FOLDERS.contains(&folder) {
            return Some(name.to_owned());
        }
        if is_recorded {
            return Some(name.to_owned());
        }
        self.unknown(&typed(args), "it runs a script");
        let is_tool = ["venv/bin", "node_modules/.bin", ".cargo/bin", ".local/bin"]
            .iter()
            .any(|tools| folder.ends_with(tools));
        (is_tool || folder.starts_with("/usr/") || folder.starts_with("/opt/")).then(|| name.to_owned())
    }

    /// `cd` and its like: true if it surely works.
    fn change_folder(&mut self, call: &Call<'_>, state: &mut State) -> bool {
        let is_plain = call.name == "cd" || call.name == "chdir" || call.name == "pushd";
        match call.options.operands.as_slice() {
            _ if !is_plain || call.options.has(&["P", "n", "e", "@"]) => state.enter(Vec::new()),
            [] if call.name != "pushd" => {
                state.enter(self.around.home.map(Path::to_path_buf).into_iter().collect());
                return true;
            }
            [target] if target.is("-") && call.name != "pushd" => {
                state.go_back();
                return true;
            }
            // `pushd +1`, and what zsh makes of two words.
            [target] if !target.text.starts_with(['+', '-']) => return self.enter(target, state),
            _ => state.enter(Vec::new()),
        }
        false
    }

    pub(super) fn enter(&mut self, target: &Arg, state: &mut State) -> bool {
        let folders: Vec<_> = self.paths(target, state).iter().map(path_clean::clean).collect();
        let exists = !folders.is_empty() && folders.iter().all(|folder| self.is_folder(folder));
        state.enter(folders);
        exists
    }

    fn declare(&mut self, call: &Call<'_>, state: &mut State) {
        let is_exported = call.name == "export" || call.options.has(&["x"]);
        for arg in &call.options.operands {
            let (name, value) = match arg.text.find('=') {
                Some(equals) => (&arg.text[..equals], Some(arg.tail(equals + 1))),
                None => (arg.text.as_str(), None),
            };
            let is_plain = is_name(name) && (value.is_some() || arg.known == Known::All);
            // With options such as `-i` and `-n` it evaluates what it is given.
            let is_sure = is_plain && call.options.stranger.is_none();
            if !is_plain {
                self.unknown(&typed(call.all), "mala does not know what it sets");
            }
            let value = value.filter(|_| is_sure).unwrap_or_else(Arg::unknown);
            let name = name.to_owned();
            if is_exported {
                self.note_exported(&name, &value);
            }
            if !matches!(call.name, "export" | "readonly") {
                state.make_local(&name);
            }
            self.assign(&name, value, state);
        }
    }

    /// Variables that get a value nobody knows.
    fn forget(&mut self, call: &Call<'_>, state: &mut State) {
        let names: Vec<&Arg> = match call.name {
            "printf" => call.options.values(&["v"]).collect(),
            "read" => call.options.values(&["a"]).chain(call.options.operands.iter().copied()).collect(),
            "getopts" => call.options.operands.iter().copied().skip(1).take(1).collect(),
            _ => call.options.operands.clone(),
        };
        for name in names {
            // Of `a[...]`, the shell evaluates the index.
            if !name.as_literal().is_some_and(is_name) {
                self.unknown(&typed(call.all), "mala does not know what it sets");
            }
            if call.name == "unset" {
                state.doubt_function(&name.text);
            }
            state.set(&name.text, Arg::unknown());
        }
        for name in ["REPLY", "MAPFILE", "OPTARG", "OPTIND"] {
            state.set(name, Arg::unknown());
        }
    }

    /// `set`: options of the shell, then its arguments.
    fn set(&mut self, call: &Call<'_>, state: &mut State) -> bool {
        let mut args = call.args.iter().peekable();
        while let Some(arg) = args.next() {
            let is_harmless = match arg.as_literal() {
                Some("-o" | "+o") => args.next().is_none_or(|name| {
                    ["errexit", "nounset", "pipefail", "xtrace", "verbose"].iter().any(|known| name.is(known))
                }),
                Some(text) if text.len() > 1 && text.starts_with(['-', '+']) && text.ends_with('o') => {
                    is_cluster_of(&text[..text.len() - 1], "euxv")
                        && args.next().is_some_and(|name| name.is("pipefail"))
                }
                Some("--") => break,
                Some(text) => is_cluster_of(text, "euxv"),
                None => false,
            };
            if !is_harmless {
                self.unknown(&typed(call.all), "mala does not know what it changes");
                break;
            }
        }
        state.forget_positional();
        true
    }

    fn shopt(&mut self, call: &Call<'_>) {
        const HARMLESS: &[&str] =
            &["-s", "-u", "-q", "-p", "nullglob", "failglob", "globstar", "inherit_errexit", "lastpipe"];
        if !call.args.iter().all(|arg| HARMLESS.iter().any(|known| arg.is(known))) {
            self.unknown(&typed(call.all), "mala does not know what it changes");
        }
    }

    /// `[` and `test`: each part must be one that surely only looks.
    fn tests(&mut self, args: &[Arg]) {
        const BINARY: &[&str] =
            &["=", "==", "!=", "<", ">", "-nt", "-ot", "-ef", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        let end = args.len() - usize::from(args.last().is_some_and(|last| last.is("]")));
        for part in args[..end].split(|arg| arg.is("-a") || arg.is("-o")) {
            let start = part.iter().take_while(|arg| arg.is("!")).count();
            let is_sure = match &part[start..] {
                [] => true,
                [only] => only.known == Known::All,
                [first, second, ..] => {
                    BINARY.iter().any(|sign| second.is(sign))
                        || first.as_literal().is_some_and(|text| text.starts_with('-'))
                }
            };
            if !is_sure {
                self.unknown(&format!("[ {}", typed(args)), "mala does not know what it looks at");
            }
        }
        self.comparisons(&args[..end]);
    }

    /// Shells evaluate what is compared as a number, and the index of `-v 'a[...]'`.
    pub(super) fn comparisons(&mut self, args: &[Arg]) {
        let is_number = |at: Option<&Arg>| at.and_then(Arg::as_literal).is_some_and(is_integer);
        for (at, arg) in args.iter().enumerate() {
            let is_sure = match arg.as_literal() {
                Some("-v" | "-R") => false,
                Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") => {
                    is_number(at.checked_sub(1).and_then(|before| args.get(before)))
                        && is_number(args.get(at + 1))
                }
                _ => true,
            };
            if !is_sure {
                self.unknown(&format!("[ {}", typed(args)), "the shell may evaluate what it compares");
            }
        }
    }

    fn eval(&mut self, start: &mut Start<'_>, args: &[Arg]) {
        let words: Option<Vec<&str>> = args.iter().map(Arg::as_literal).collect();
        let Some(words) = words else {
            return self.unknown(&format!("eval {}", typed(args)), "it runs text that is not known");
        };
        for (name, value) in std::mem::take(&mut start.env) {
            start.state.set(&name, value);
        }
        self.nested_text(&words.join(" "), &start.stdin, start.state);
    }

    /// A trap runs later, when much may have changed.
    fn trap(&mut self, start: &Start<'_>, call: &Call<'_>) {
        match call.options.operands.first() {
            Some(action) if action.known == Known::All => {
                let mut state = start.state.forgetful();
                self.nested_text(&action.text, &Stdin::Elsewhere, &mut state);
                state.enter(Vec::new());
                self.nested_text(&action.text, &Stdin::Elsewhere, &mut state);
            }
            Some(_) => self.unknown(&typed(call.all), "it runs text that is not known"),
            None => {}
        }
    }

    /// `bash -c TEXT`, `bash SCRIPT`, `bash <<EOF`
    fn shell(&mut self, start: Start<'_>, call: &Call<'_>) {
        let options = &call.options;
        if OTHER_SHELLS.contains(&call.name) {
            self.unknown(&typed(call.all), "it may mean something else to this shell");
        }
        // It knows what was exported and nothing else.
        let mut inner = start.state.forgetful();
        if options.values(&["o"]).any(|option| !option.is("pipefail")) {
            self.unknown(&typed(call.all), "mala does not know what it changes");
        }
        if options.has(&["c"]) {
            match options.operands.first() {
                Some(code) if code.known == Known::All => {
                    inner.enter_function(
                        &[],
                        call_args(&options.operands[1..]).as_slice(),
                        &start.state.docs,
                    );
                    self.nested_text(&code.text, &start.stdin, &mut inner);
                }
                _ => self.unknown(&typed(call.all), "it runs text that is not known"),
            }
            return;
        }
        let reads_stdin = options.operands.is_empty() || options.has(&["s"]);
        match start.stdin {
            _ if options.has(&["n"]) => {}
            _ if options.stranger.is_some() || !reads_stdin => {
                self.unknown(&typed(call.all), "it runs a script");
            }
            Stdin::Text(text) => self.nested_text(&text, &Stdin::Elsewhere, &mut inner),
            Stdin::Elsewhere => self.unknown(&typed(call.all), "it runs what it reads"),
            Stdin::Inherited => {}
        }
    }

    fn interpreter(&mut self, start: &Start<'_>, call: &Call<'_>) {
        let is_harmless = match call.args {
            [] => start.stdin == Stdin::Inherited,
            [only] => ["-V", "-v", "-h"].iter().any(|flag| only.is(flag)),
            _ => false,
        };
        if !is_harmless {
            self.unknown(&typed(call.all), "it runs code that is not read");
        }
    }

    /// GitHub's tool works elsewhere, but for a few of its commands.
    fn github(&mut self, start: &Start<'_>, call: &Call<'_>) {
        let words: Vec<&str> = call.args.iter().take(2).filter_map(Arg::as_literal).collect();
        if words.last() == Some(&"checkout") {
            let objection =
                Objection::new(typed(call.all), "it moves everybody's files", "stay on this branch");
            return self.object(&objection, start.state);
        }
        let known = table::find(&format!("gh/{}", words.join("/")));
        let is_known =
            known.is_some_and(|known| options::read(&call.args[2..], known.syntax).stranger.is_none());
        if !is_known {
            self.unknown(&typed(call.all), NOT_KNOWN);
        }
    }

    fn git(&mut self, start: &Start<'_>, args: &[Arg]) {
        let texts = texts_of(args);
        let Some(call) = git::Call::read(&texts) else {
            let is_known =
                args.iter().all(|arg| ["--version", "-v", "--help", "-h"].iter().any(|known| arg.is(known)));
            if !is_known {
                self.unknown(&format!("git {}", typed(args)), "the command is not known");
            }
            return;
        };
        let mut state = start.state.clone();
        for folder in &call.folders {
            self.enter(&Arg::literal(*folder), &mut state);
        }
        let exists = self.around.exists;
        let folders = state.folders.clone();
        let is_there = |path: &Path| folders.iter().any(|folder| exists(&folder.join(path)));
        let facts =
            git::Facts { exists: &is_there, alias: self.around.alias, settings: &[], run: self.around.run };
        let objections = git::judge(&texts, &facts);
        // What only looks is led nowhere.
        let writes = git::may_write(&texts, &facts);
        for (name, _) in start.env.iter().filter(|_| writes) {
            if let Some(objection) = git::variable_objection(name, self.around.run) {
                self.object(&objection, &state);
            }
        }
        objections.iter().for_each(|objection| self.object(objection, &state));
        let offset = args.len() - call.rest.len();
        if !self.is_plain_git(&args[..offset - 1], &call, &state) {
            self.unknown(
                &format!("git {}", typed(args)),
                "mala does not know what these settings make of it",
            );
        }
        self.git_paths(&call, &args[offset..], &mut state, &start.stdin);
    }

    /// True if git will do what its manual says: with no settings but those of the checkout that the command started in.
    fn is_plain_git(&self, before: &[Arg], call: &git::Call<'_>, state: &State) -> bool {
        const PLAIN: &[&str] = &["-C", "-c", "--no-pager", "--no-optional-locks", "--literal-pathspecs"];
        let mut before = before.iter();
        while let Some(arg) = before.next() {
            if !PLAIN.iter().any(|option| arg.is(option)) {
                return false;
            }
            if matches!(arg.text.as_str(), "-C" | "-c")
                && before.next().is_none_or(|value| value.known != Known::All)
            {
                return false;
            }
        }
        let home = self.repository(self.around.cwd);
        call.config.iter().all(|setting| git::is_harmless_setting(setting))
            && !state.folders.is_empty()
            && state.folders.iter().all(|folder| self.repository(folder) == home)
    }

    /// The folder whose settings git would read in `folder`. A bare repository may be any folder that looks like one.
    fn repository<'p>(&self, folder: &'p Path) -> Option<&'p Path> {
        let exists = self.around.exists;
        folder.ancestors().find(|folder| {
            exists(&folder.join(".git")) || (exists(&folder.join("HEAD")) && exists(&folder.join("objects")))
        })
    }
}

/// What is known of a program with these arguments, and what is left of them: `ruff check --fix` is `ruff/check`.
fn command_of<'a>(name: &str, args: &'a [Arg]) -> Option<(&'static Program, &'a [Arg])> {
    let program = table::find(name)?;
    if program.role != Role::HasCommands {
        return Some((program, args));
    }
    let (verb, rest) = args.split_first()?;
    Some((table::find(&format!("{name}/{}", verb.as_literal()?))?, rest))
}

fn asks_for_help(args: &[Arg]) -> bool {
    matches!(args, [only] if only.is("--version") || only.is("--help"))
}

/// `-ab` or `+ab` of these letters.
fn is_cluster_of(text: &str, letters: &str) -> bool {
    text.starts_with(['-', '+']) && text[1..].chars().all(|letter| letters.contains(letter))
}

/// `sh -c TEXT NAME ARGUMENTS`
fn call_args(operands: &[&Arg]) -> Vec<Arg> {
    operands.iter().map(|arg| (*arg).clone()).collect()
}

pub(super) fn texts_of(args: &[Arg]) -> Vec<&str> {
    args.iter()
        .map(|arg| if arg.known == Known::Head && arg.text.is_empty() { "?" } else { arg.text.as_str() })
        .collect()
}
