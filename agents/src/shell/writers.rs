//! Programs whose writes follow from their arguments.

use std::path::Path;

use super::expand::{Arg, Known};
use super::notes::typed;
use super::options::Options;
use super::programs::{Call, NOT_KNOWN};
use super::state::State;
use super::table::{Role, Special};
use super::walk::{Start, Stdin, Walker};
use crate::patch;

impl Walker<'_> {
    /// What a program with plain rules does with its operands. True if it surely succeeds.
    pub(super) fn plain(&mut self, role: Role, call: &Call<'_>, state: &State) -> bool {
        let (name, options) = (call.name, &call.options);
        match role {
            Role::Reads => return matches!(name, ":" | "true" | "echo"),
            Role::TakesNone if !options.operands.is_empty() => self.unknown(&typed(call.all), NOT_KNOWN),
            Role::Removes => self.remove(options, state),
            Role::Writes => options.operands.iter().for_each(|operand| self.write(operand, state)),
            Role::WritesSecond => {
                if let Some(output) = options.operands.get(1) {
                    self.write(output, state);
                }
                // One word may become two.
                if options.operands.iter().any(|operand| operand.known != Known::All) {
                    self.unknown(&typed(call.all), NOT_KNOWN);
                }
            }
            Role::WritesValue(names) => options.values(names).for_each(|output| self.write(output, state)),
            Role::ChangesMode => self.mode(options, state),
            Role::Transfers => self.transfer(call, state),
            Role::RewritesUnless(looks) if !options.has(looks) => self.rewrite(call, state),
            Role::RewritesIf(writes) if options.has(writes) => self.rewrite(call, state),
            _ => {}
        }
        false
    }

    /// What a program does whose arguments need a closer look.
    pub(super) fn writer(&mut self, special: Special, name: &str, start: &Start<'_>, call: &Call<'_>) {
        let state: &State = start.state;
        match special {
            Special::Sed => self.sed(call, state),
            Special::Perl => self.perl(call, state),
            Special::Awk => self.awk(call, state),
            Special::Dd => self.dd(call, state),
            Special::Curl => self.curl(call, state),
            Special::Patch => self.patch(start, call),
            Special::ApplyPatch => self.apply_patch(start, call),
            Special::Archive => self.archive(call, state),
            Special::Compresses => self.compress(call, state),
            Special::Editor => {
                let files = call.options.operands.iter().filter(|arg| !arg.text.starts_with('+'));
                files.for_each(|file| self.write(file, state));
                self.unknown(&typed(call.all), "an editor's commands are not read");
            }
            _ => self.unknown(&format!("{name} {}", typed(call.args)), NOT_KNOWN),
        }
    }

    pub(super) fn remove(&mut self, options: &Options<'_>, state: &State) {
        let is_deep = options.has(&["r", "R", "recursive"]);
        for operand in &options.operands {
            if is_deep { self.write_tree(operand, state) } else { self.write(operand, state) }
        }
    }

    fn mode(&mut self, options: &Options<'_>, state: &State) {
        let is_deep = options.has(&["R", "recursive"]);
        // `chmod -x file`: what looks like an option is the mode.
        let has_mode = options.has(&["reference", "x", "w", "r"]);
        for operand in options.operands.iter().skip(usize::from(!has_mode)) {
            if is_deep { self.write_tree(operand, state) } else { self.write(operand, state) }
        }
    }

    /// `mv`, `cp` and their like: sources, then a destination or `-t FOLDER`.
    pub(super) fn transfer(&mut self, call: &Call<'_>, state: &State) {
        let (name, options) = (call.name, &call.options);
        if name == "install" && options.has(&["d", "directory"]) {
            return;
        }
        let folder = options.values(&["t", "target-directory"]).next().cloned();
        let (sources, target) = match (&folder, options.operands.split_last()) {
            (Some(folder), _) => (options.operands.as_slice(), folder),
            (None, Some((target, sources))) => (sources, *target),
            (None, None) => return,
        };
        self.note_new_names(call, target);
        let is_deep = options.has(&["r", "R", "a", "recursive", "archive"]);
        if name == "mv" || (name == "rsync" && options.has(&["remove-source-files"])) {
            for source in sources {
                if self.may_be_folder(source, state) {
                    self.write_tree(source, state);
                } else {
                    self.write(source, state);
                }
            }
        }
        if sources.is_empty() && name == "ln" {
            let last = Path::new(&target.text).file_name().and_then(|name| name.to_str()).unwrap_or("?");
            return self.write(&Arg::literal(last), state);
        }
        if matches!(name, "scp" | "rsync") && is_remote(target) {
            return;
        }
        if name == "clone" {
            return self.clone_into(call, target, sources, state);
        }
        if sources.is_empty() && matches!(name, "cp" | "mv" | "install") {
            return;
        }
        let into_folder = folder.is_some() || sources.len() > 1 || target.text.ends_with('/');
        let into_folder = !options.has(&["T", "no-target-directory"])
            && (into_folder || self.is_known_folder(target, state));
        for source in sources {
            let deep = is_deep || (name == "mv" && self.may_be_folder(source, state));
            let target = if into_folder { inside(target, source) } else { target.clone() };
            // `rsync -a src/ dst` fills `dst` itself.
            let fills = name == "rsync" && source.text.ends_with('/');
            let target =
                if fills { options.operands.last().map_or(target, |last| (*last).clone()) } else { target };
            if deep { self.write_tree(&target, state) } else { self.write(&target, state) }
        }
    }

    /// `git clone`: a folder that is new or empty.
    fn clone_into(&mut self, call: &Call<'_>, target: &Arg, sources: &[&Arg], state: &State) {
        if sources.is_empty() {
            return self.unknown(&typed(call.all), "the files it makes are not known");
        }
        self.write_tree(target, state);
    }

    /// After a link, a copied link or a moved folder, a name that is written later may lead elsewhere than it does now.
    fn note_new_names(&mut self, call: &Call<'_>, target: &Arg) {
        let options = &call.options;
        let makes_links = options.has(&[
            "a",
            "d",
            "P",
            "R",
            "r",
            "l",
            "s",
            "archive",
            "recursive",
            "links",
            "link",
            "symbolic-link",
            "no-dereference",
        ]);
        let is_new = self.makes_folders && call.name != "ln";
        if matches!(call.name, "mv" | "ln" | "rsync") || (call.name == "cp" && makes_links) || is_new {
            self.unknown(&typed(call.all), &format!("what `{}` is from then on is not known", target.text));
        }
    }

    /// True if it is a folder wherever the shell may be.
    fn is_known_folder(&mut self, arg: &Arg, state: &State) -> bool {
        let paths = self.paths(arg, state);
        !paths.is_empty() && paths.iter().all(|path| self.is_folder(path))
    }

    pub(super) fn may_be_folder(&mut self, arg: &Arg, state: &State) -> bool {
        arg.known == Known::Pattern || self.paths(arg, state).iter().any(|path| self.is_folder(path))
    }

    /// What a formatter rewrites: files, or all of a folder.
    fn rewrite(&mut self, call: &Call<'_>, state: &State) {
        if call.options.operands.is_empty() || matches!(call.name, "cargo" | "go") {
            return self.unknown(&typed(call.all), "it formats files that are not named");
        }
        call.options.operands.iter().for_each(|file| self.write_files(file, state));
    }

    /// The file, or the files below it if it is a folder.
    pub(super) fn write_files(&mut self, arg: &Arg, state: &State) {
        if arg.known == Known::All && self.may_be_folder(arg, state) {
            self.write_below(arg, state);
        } else {
            self.write(arg, state);
        }
    }

    fn dd(&mut self, call: &Call<'_>, state: &State) {
        for arg in call.args {
            if arg.text.starts_with("of=") {
                self.write(&arg.tail("of=".len()), state);
            } else if arg.known != Known::All && !arg.text.contains('=') {
                self.unknown(&typed(call.all), "its arguments are not known");
            }
        }
    }

    fn curl(&mut self, call: &Call<'_>, state: &State) {
        let options = &call.options;
        let outputs = ["o", "output", "c", "cookie-jar", "D", "dump-header"];
        options.values(&outputs).for_each(|output| self.write(output, state));
        // Since 8.3 `%output{FILE}` in it names a file.
        let formats = options.values(&["w", "write-out"]);
        let is_plain = formats.into_iter().all(|format| {
            format.known == Known::All && !format.text.contains("%output") && !format.text.starts_with('@')
        });
        if !is_plain || options.has(&["O", "J"]) {
            self.unknown(&typed(call.all), "the files it saves are not known");
        }
    }

    /// It may save what was there before and what does not fit in other files.
    fn patch(&mut self, start: &Start<'_>, call: &Call<'_>) {
        let options = &call.options;
        let strip = options.values(&["p", "strip"]).next().map(|value| value.text.parse().unwrap_or(1));
        let file = options.operands.first().copied().or_else(|| options.values(&["o", "output"]).next());
        match (file, &start.stdin) {
            (Some(file), _) => self.write(file, start.state),
            (None, Stdin::Text(text)) => self.diff(text, strip.unwrap_or(0), call.all, start.state),
            _ => {}
        }
    }

    pub(super) fn diff(&mut self, text: &str, strip: usize, args: &[Arg], state: &State) {
        let paths = patch::unified_paths(text, strip);
        if paths.is_empty() {
            self.unknown(&typed(args), "the files it changes are not known");
        }
        paths.into_iter().for_each(|path| self.write(&Arg::literal(path), state));
    }

    fn apply_patch(&mut self, start: &Start<'_>, call: &Call<'_>) {
        let text = match (call.args, &start.stdin) {
            ([text], _) if text.known == Known::All => Some(text.text.clone()),
            ([], Stdin::Text(text)) => Some(text.clone()),
            _ => None,
        };
        match text.map(|text| patch::paths(&text)) {
            Some(Ok(paths)) => {
                paths.into_iter().for_each(|path| self.write(&Arg::literal(path), start.state));
            }
            _ => self.unknown("apply_patch", "the files it changes are not known"),
        }
    }

    fn archive(&mut self, call: &Call<'_>, state: &State) {
        // The first word may be a bundle of options without a dash.
        let first = call.args.first().map_or("", |arg| arg.text.as_str());
        let letters = if first.starts_with("--") { "" } else { first.trim_start_matches('-') };
        let has =
            |letter: char, long: &str| letters.contains(letter) || call.args.iter().any(|arg| arg.is(long));
        let is_listing = has('t', "--list") && !has('c', "--create");
        let is_plain = letters.chars().all(|letter| "ctzjJvfhp".contains(letter));
        if has('x', "--extract") || !is_plain || !(is_listing || has('c', "--create")) {
            return self.unknown(&typed(call.all), "the files it unpacks are not known");
        }
        let named = call.args.get(1).filter(|_| letters.ends_with('f'));
        let file = named.or_else(|| call.options.values(&["f", "file"]).next());
        match file {
            // It asks another machine for `host:file`.
            Some(file) if is_remote(file) => self.unknown(&typed(call.all), "it starts another program"),
            _ if is_listing => {}
            Some(file) => self.write(file, state),
            None => self.unknown(&typed(call.all), "the file it makes is not known"),
        }
    }

    fn compress(&mut self, call: &Call<'_>, state: &State) {
        if call.options.has(&["c", "stdout", "to-stdout", "t", "test", "l", "list"]) {
            return;
        }
        call.options.operands.iter().for_each(|file| self.write(file, state));
        if !call.options.operands.is_empty() {
            self.unknown(&typed(call.all), "it makes files with other names");
        }
    }
}

/// `host:file`; what has a slash in front of the colon is a file of this machine.
fn is_remote(arg: &Arg) -> bool {
    arg.text.split('/').next().is_some_and(|first| first.contains(':'))
}

/// The name `source` gets in the folder `target`.
fn inside(target: &Arg, source: &Arg) -> Arg {
    let name = match source.known {
        Known::All => Path::new(&source.text).file_name().and_then(|name| name.to_str()),
        Known::Pattern => source.text.rsplit('/').next(),
        Known::Head => None,
    };
    let folder = target.text.trim_end_matches('/');
    let text = format!("{folder}/{}", name.unwrap_or("**"));
    let is_pattern = name.is_none() || source.known == Known::Pattern || target.known == Known::Pattern;
    let known = match (target.known, is_pattern) {
        (Known::Head, _) => Known::Head,
        (_, true) => Known::Pattern,
        (_, false) => Known::All,
    };
    Arg { text, known, span: None }
}
