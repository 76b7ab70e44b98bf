//! Which program does what: the way from a command's name to its judgement.

use std::path::Path;

use super::expand::{Arg, Known};
use super::names::{READERS, SHELLS, is_interpreter};
use super::notes::typed;
use super::options::{self, Syntax};
use super::state::State;
use super::walk::{Start, Stdin, Walker};
use crate::git;
use crate::objection::Objection;

impl Walker<'_> {
    /// Judges one command, the program first. True if it surely succeeds.
    pub(super) fn run(&mut self, mut start: Start<'_>, args: &[Arg]) -> bool {
        let Some((program, rest)) = args.split_first() else { return true };
        let Some(name) = self.program_name(program, args) else { return false };
        let function = start.state.function(&name);
        let patterns = self.around.tests;
        let texts: Vec<&str> =
            args.iter().map(|arg| if arg.known == Known::Head { "?" } else { &arg.text }).collect();
        let is_test = function.is_none() && patterns.iter().any(|pattern| pattern.matches(&texts));
        if start.is_guarded && is_test {
            self.test(args, start.spot.clone());
        }
        if let Some(function) = function {
            self.call(&function, start, args);
            return false;
        }
        if matches!(rest, [only] if only.is("--version") || only.is("--help")) {
            return true;
        }
        match name.as_str() {
            "cd" | "chdir" | "pushd" => return self.change_folder(rest, start.state),
            "popd" => start.state.folders.clear(),
            "export" | "declare" | "local" | "readonly" | "typeset" => self.declare(rest, start.state),
            "read" | "mapfile" | "readarray" | "getopts" | "unset" | "printf" => {
                forget(name.as_str(), rest, start.state);
            }
            "git" => self.git(&start, rest),
            "eval" => self.eval(&mut start, rest),
            "trap" => self.trap(&start, rest),
            "gh" => self.github(&start, args),
            "source" | "." => self.unknown(&typed(args), "it runs a script"),
            name if SHELLS.contains(&name) => self.shell(start, args),
            name if READERS.contains(&name) => {
                return matches!(name, ":" | "true" | "mkdir" | "set" | "echo" | "shopt");
            }
            name if self.wrapper(name, &start, rest) => {}
            name if self.writer(name, &start, rest) => {}
            name if is_interpreter(name) => self.interpreter(&start, args),
            _ if is_test => {} // its own evidence says what it changed
            _ => self.unknown(&typed(args), "mala does not know what it writes"),
        }
        false
    }

    /// The program's plain name; what cannot be named is noted as unknown.
    fn program_name(&mut self, program: &Arg, args: &[Arg]) -> Option<String> {
        let Some(text) = program.as_literal() else {
            self.unknown(&typed(args), "the name of the program is not known");
            return None;
        };
        let Some((folder, name)) = text.rsplit_once('/') else { return Some(text.to_owned()) };
        let is_installed =
            ["/usr/", "/bin", "/sbin", "/opt/", "/nix/", "/snap/"].iter().any(|top| folder.starts_with(top));
        let is_tool = folder.ends_with("/.venv/bin")
            || folder.ends_with("venv/bin")
            || folder.ends_with("node_modules/.bin")
            || folder.ends_with(".cargo/bin")
            || folder.ends_with(".local/bin");
        let is_guarded = self.around.tests.iter().any(|pattern| pattern.matches(&texts_of(args)));
        if is_installed || is_tool || is_guarded {
            return Some(name.to_owned());
        }
        self.unknown(&typed(args), "it runs a script");
        None
    }

    /// `cd`: true if it surely works.
    fn change_folder(&mut self, args: &[Arg], state: &mut State) -> bool {
        let target = args
            .iter()
            .find(|arg| !(arg.text.starts_with('-') && arg.text.len() > 1 && arg.known == Known::All));
        let Some(target) = target else {
            state.enter(self.around.home.map(Path::to_path_buf).into_iter().collect());
            return true;
        };
        if target.is("-") {
            state.go_back();
            return true;
        }
        let folders: Vec<_> = self.paths(target, state).iter().map(path_clean::clean).collect();
        let exists = !folders.is_empty() && folders.iter().all(|folder| self.is_folder(folder));
        state.enter(folders);
        exists
    }

    fn declare(&mut self, args: &[Arg], state: &mut State) {
        for arg in args {
            if let Some(equals) = arg.text.find('=') {
                let name = arg.text[..equals].to_owned();
                self.assign(&name, arg.tail(equals + 1), state);
            }
        }
    }

    fn eval(&mut self, start: &mut Start<'_>, args: &[Arg]) {
        let words: Option<Vec<&str>> = args.iter().map(Arg::as_literal).collect();
        match words {
            Some(words) => self.nested_text(&words.join(" "), start.state),
            None => self.unknown(&format!("eval {}", typed(args)), "it runs text that is not known"),
        }
    }

    fn trap(&mut self, start: &Start<'_>, args: &[Arg]) {
        match args.iter().find(|arg| !arg.text.starts_with('-') || arg.known == Known::Head) {
            Some(action) if action.known == Known::All => {
                self.nested_text(&action.text, &mut start.state.clone());
            }
            Some(_) => self.unknown(&format!("trap {}", typed(args)), "it runs text that is not known"),
            None => {}
        }
    }

    /// `bash -c TEXT`, `bash SCRIPT`, `bash <<EOF`
    fn shell(&mut self, start: Start<'_>, args: &[Arg]) {
        let syntax = Syntax { short: "c?o:O:", long: &["rcfile", "init-file"], in_order: true };
        let options = options::read(&args[1..], syntax);
        let mut inner = start.state.clone();
        if options.has(&["c"]) {
            match options.operands.first() {
                Some(code) if code.known == Known::All => {
                    for (number, arg) in options.operands.iter().enumerate().skip(1).take(9) {
                        inner.set(&(number - 1).to_string(), (*arg).clone());
                    }
                    let text = code.text.clone();
                    self.nested_text(&text, &mut inner);
                }
                _ => self.unknown(&typed(args), "it runs text that is not known"),
            }
            return;
        }
        let reads_stdin = options.operands.is_empty() || options.has(&["s"]);
        match start.stdin {
            _ if options.has(&["version", "help", "n"]) => {}
            _ if options.doubtful || !reads_stdin => self.unknown(&typed(args), "it runs a script"),
            Stdin::Text(text) => self.nested_text(&text, &mut inner),
            Stdin::Elsewhere => self.unknown(&typed(args), "it runs what it reads"),
            Stdin::Inherited => {}
        }
    }

    fn interpreter(&mut self, start: &Start<'_>, args: &[Arg]) {
        let is_harmless = match &args[1..] {
            [] => start.stdin == Stdin::Inherited,
            [only] => ["-V", "-v", "-h"].iter().any(|flag| only.is(flag)),
            [flag, module, ..] => flag.is("-m") && module.is("json.tool") && args.len() < 5,
        };
        if !is_harmless {
            self.unknown(&typed(args), "it runs code that is not read");
        }
    }

    /// GitHub's tool works elsewhere, but for a few of its commands.
    fn github(&mut self, start: &Start<'_>, args: &[Arg]) {
        let verb = args.iter().skip(1).filter(|arg| !arg.text.starts_with('-')).nth(1);
        match verb.and_then(Arg::as_literal) {
            Some("checkout") => {
                let objection =
                    Objection::new(typed(args), "it moves everybody's files", "stay on this branch");
                self.object(&objection, start.state);
            }
            Some("clone" | "download" | "sync" | "rename") => {
                self.unknown(&typed(args), "the files it writes are not known");
            }
            _ => {}
        }
    }

    fn git(&mut self, start: &Start<'_>, args: &[Arg]) {
        let texts = texts_of(args);
        let Some(call) = git::Call::read(&texts) else {
            if args.iter().any(Arg::may_be_option) {
                self.unknown(&format!("git {}", typed(args)), "the command is not known");
            }
            return;
        };
        let mut state = start.state.clone();
        for folder in &call.folders {
            self.change_folder(&[Arg::literal(*folder)], &mut state);
        }
        let exists = self.around.exists;
        let folders = state.folders.clone();
        let is_there = |path: &Path| folders.iter().any(|folder| exists(&folder.join(path)));
        let facts =
            git::Facts { exists: &is_there, alias: self.around.alias, settings: &[], run: self.around.run };
        let objections = git::judge(&texts, &facts);
        // What only looks is led nowhere.
        let variables: Vec<&String> =
            if git::may_write(&texts, &facts) { start.env.iter().collect() } else { Vec::new() };
        for name in variables {
            if let Some(objection) = git::variable_objection(name, self.around.run) {
                self.object(&objection, &state);
            }
        }
        objections.iter().for_each(|objection| self.object(objection, &state));
        let offset = args.len() - call.rest.len();
        self.git_paths(&call, &args[offset..], &mut state, &start.stdin);
    }
}

/// Variables that get a value nobody knows.
fn forget(program: &str, args: &[Arg], state: &mut State) {
    let names: Vec<&Arg> = match program {
        "printf" => args.windows(2).filter(|pair| pair[0].is("-v")).map(|pair| &pair[1]).collect(),
        _ => args.iter().collect(),
    };
    for name in names {
        state.set(&name.text, Arg::unknown());
    }
}

pub(super) fn texts_of(args: &[Arg]) -> Vec<&str> {
    args.iter()
        .map(|arg| if arg.known == Known::Head && arg.text.is_empty() { "?" } else { arg.text.as_str() })
        .collect()
}
