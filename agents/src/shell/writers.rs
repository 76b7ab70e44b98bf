//! Programs whose writes follow from their arguments.

use std::path::Path;

use super::expand::{Arg, Known};
use super::notes::typed;
use super::options::{self, PLAIN, Syntax};
use super::sed;
use super::state::State;
use super::walk::{Start, Stdin, Walker};
use crate::patch;

pub(super) const fn syntax(short: &'static str, long: &'static [&'static str]) -> Syntax {
    Syntax { short, long, in_order: false }
}

impl Walker<'_> {
    /// Notes what a known program writes; false if it is not known.
    pub(super) fn writer(&mut self, name: &str, start: &Start<'_>, args: &[Arg]) -> bool {
        let state: &State = start.state;
        match name {
            "rm" | "unlink" | "shred" | "rmdir" => self.remove(args, state),
            "touch" => self.all(args, syntax("d:r:t:", &["date", "reference", "time"]), state),
            "truncate" => self.all(args, syntax("s:r:", &["size", "reference"]), state),
            "tee" | "sponge" => self.all(args, PLAIN, state),
            "chmod" | "chown" | "chgrp" => self.mode(args, state),
            "mv" | "cp" | "ln" | "install" | "rsync" | "scp" => self.transfer(name, args, state),
            "sed" | "gsed" => self.sed(args, state),
            "perl" => self.perl(start, args),
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(args, state),
            "dd" => self.dd(args, state),
            "sort" => {
                self.output_option(args, syntax("o:k:t:S:T:", &["output", "key"]), &["o", "output"], state);
            }
            "shuf" | "iconv" => {
                self.output_option(args, syntax("o:n:i:f:t:", &["output"]), &["o", "output"], state);
            }
            "curl" => self.curl(args, state),
            "patch" => self.patch(start, args),
            "apply_patch" | "applypatch" => self.apply_patch(start, args),
            "ed" | "ex" | "vi" | "vim" | "nvim" | "emacs" | "nano" | "red" => self.editor(name, args, state),
            "uniq" | "xxd" => {
                let options = options::read(args, syntax("f:s:w:l:c:o:g:", &[]));
                if let Some(output) = options.operands.get(1) {
                    self.write(output, state);
                }
            }
            "tar" | "bsdtar" => self.archive(args, state),
            "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" => {
                self.compress(name, args, state);
            }
            _ => return self.formatter(name, args, state),
        }
        true
    }

    fn all(&mut self, args: &[Arg], syntax: Syntax, state: &State) {
        let options = options::read(args, syntax);
        options.operands.iter().for_each(|operand| self.write(operand, state));
    }

    pub(super) fn remove(&mut self, args: &[Arg], state: &State) {
        let options = options::read(args, syntax("n:s:", &[]));
        let is_deep = options.has(&["r", "R", "recursive"]);
        for operand in &options.operands {
            if is_deep { self.write_tree(operand, state) } else { self.write(operand, state) }
        }
    }

    fn mode(&mut self, args: &[Arg], state: &State) {
        let options = options::read(args, syntax("", &["reference", "from"]));
        let is_deep = options.has(&["R", "recursive"]);
        // `chmod -x file`: what looks like an option is the mode.
        let has_mode = options.has(&["reference"]) || options.has(&["x", "w", "r"]);
        for operand in options.operands.iter().skip(usize::from(!has_mode)) {
            if is_deep { self.write_tree(operand, state) } else { self.write(operand, state) }
        }
    }

    /// `mv`, `cp` and their like: sources, then a destination or `-t FOLDER`.
    pub(super) fn transfer(&mut self, name: &str, args: &[Arg], state: &State) {
        let options = options::read(args, transfer_syntax(name));
        if name == "install" && options.has(&["d", "directory"]) {
            return;
        }
        if options.doubtful {
            self.unknown(&format!("{name} {}", typed(args)), "its arguments are not known");
        }
        let folder = options.values(&["t", "target-directory"]).next().cloned();
        let (sources, target) = match (&folder, options.operands.split_last()) {
            (Some(folder), _) => (options.operands.as_slice(), folder),
            (None, Some((target, sources))) => (sources, *target),
            (None, None) => return,
        };
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
        let is_remote = matches!(name, "scp" | "rsync") && target.text.contains(':');
        if is_remote {
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

    /// True if it is a folder wherever the shell may be.
    fn is_known_folder(&mut self, arg: &Arg, state: &State) -> bool {
        let paths = self.paths(arg, state);
        !paths.is_empty() && paths.iter().all(|path| self.is_folder(path))
    }

    pub(super) fn may_be_folder(&mut self, arg: &Arg, state: &State) -> bool {
        arg.known == Known::Pattern || self.paths(arg, state).iter().any(|path| self.is_folder(path))
    }

    fn sed(&mut self, args: &[Arg], state: &State) {
        let options = options::read(args, syntax("e:f:i?l:", &["expression", "file", "line-length"]));
        let quote = || format!("sed {}", typed(args));
        if options.doubtful || options.has(&["f", "file"]) {
            self.unknown(&quote(), "its script or options are not known");
        }
        let given: Vec<Arg> = options.values(&["e", "expression"]).cloned().collect();
        let has_script = !given.is_empty() || options.has(&["f", "file"]);
        // `sed -i '' SCRIPT FILE`: elsewhere than on Linux, the suffix is a word of its own.
        let has_suffix = options.has(&["i"]) && options.operands.first().is_some_and(|first| first.is(""));
        let operands = &options.operands[usize::from(has_suffix)..];
        let files = &operands[usize::from(!has_script).min(operands.len())..];
        // `-Ei` and `-ni` are read letter by letter; `-i.bak` also makes a copy.
        if in_place(args) {
            for file in files {
                self.write(file, state);
            }
            for suffix in options.values(&["i", "in-place"]).filter(|suffix| !suffix.text.is_empty()) {
                for file in files.iter().filter(|file| file.known == Known::All) {
                    let copy = match suffix.text.contains('*') {
                        true => suffix.text.replace('*', &file.text),
                        false => format!("{}{}", file.text, suffix.text),
                    };
                    self.write(&Arg { text: copy, known: suffix.known, span: None }, state);
                }
            }
        }
        let scripts = given.iter().chain(operands.first().copied().filter(|_| !has_script));
        for script in scripts {
            let is_harmless = script.known != Known::Head && sed::is_harmless(&script.text);
            if !is_harmless && script.known != Known::Head {
                self.unknown(&quote(), "its script writes files or runs commands");
            }
        }
    }

    fn perl(&mut self, start: &Start<'_>, args: &[Arg]) {
        let options = options::read(args, syntax("e:E:i?I:M:m:F:0?l?", &[]));
        let letters = args.iter().take_while(|arg| arg.text.starts_with('-'));
        let is_in_place = options.has(&["i"]) || letters.clone().any(|arg| arg.is("-pi") || arg.is("-ni"));
        let has_code = options.has(&["e", "E"]);
        if is_in_place && has_code && !options.doubtful {
            let mut code = options.values(&["e", "E"]);
            let is_plain = code.all(|code| code.known == Known::All && is_plain_perl(&code.text));
            options.operands.iter().for_each(|file| self.write(file, start.state));
            for suffix in options.values(&["i"]).filter(|suffix| !suffix.text.is_empty()) {
                for file in &options.operands {
                    let copy = format!("{}{}", file.text, suffix.text);
                    self.write(&Arg { text: copy, known: file.known, span: None }, start.state);
                }
            }
            if is_plain {
                return;
            }
        }
        if !options.has(&["v", "V", "c"]) && (!args.is_empty() || start.stdin != Stdin::Inherited) {
            self.unknown(&format!("perl {}", typed(args)), "it runs code that is not read");
        }
    }

    fn awk(&mut self, args: &[Arg], state: &State) {
        let options =
            options::read(args, syntax("f:F:v:i:", &["file", "field-separator", "assign", "include"]));
        let is_in_place = options.values(&["i", "include"]).any(|value| value.text.starts_with("inplace"));
        let has_file = options.has(&["f", "file"]);
        let program = options.operands.first().filter(|_| !has_file);
        let writes = program.is_none_or(|program| {
            let text = &program.text;
            program.known == Known::Head
                || (text.contains("print") && text.contains('>'))
                || text.contains("system")
                || (text.contains('|') && text.contains('"'))
        });
        if has_file || (writes && program.is_some()) || options.doubtful {
            self.unknown(&format!("awk {}", typed(args)), "its program may write files or run commands");
        }
        if is_in_place {
            options.operands.iter().skip(usize::from(!has_file)).for_each(|file| self.write(file, state));
        }
    }

    fn dd(&mut self, args: &[Arg], state: &State) {
        for arg in args {
            if arg.text.starts_with("of=") {
                self.write(&arg.tail(3), state);
            } else if arg.may_be_option() {
                self.unknown(&format!("dd {}", typed(args)), "its arguments are not known");
            }
        }
    }

    fn output_option(&mut self, args: &[Arg], syntax: Syntax, names: &[&str], state: &State) {
        let options = options::read(args, syntax);
        let outputs: Vec<Arg> = options.values(names).cloned().collect();
        outputs.iter().for_each(|output| self.write(output, state));
    }

    fn curl(&mut self, args: &[Arg], state: &State) {
        let syntax = syntax(
            "o:d:H:X:u:A:e:b:c:F:T:x:m:w:D:K:C:r:E:",
            &[
                "output",
                "data",
                "header",
                "request",
                "user",
                "cookie-jar",
                "dump-header",
                "output-dir",
                "config",
                "url",
                "max-time",
                "retry",
                "data-raw",
                "data-binary",
                "form",
                "proxy",
                "cacert",
            ],
        );
        self.output_option(args, syntax, &["o", "output", "c", "cookie-jar", "D", "dump-header"], state);
        let options = options::read(args, syntax);
        if options.has(&["O", "remote-name", "remote-name-all", "output-dir", "K", "config"])
            || options.doubtful
        {
            self.unknown(&format!("curl {}", typed(args)), "the files it saves are not known");
        }
    }

    fn patch(&mut self, start: &Start<'_>, args: &[Arg]) {
        let options =
            options::read(args, syntax("p:i:d:o:r:B:D:F:", &["strip", "input", "directory", "output"]));
        if options.has(&["dry-run"]) {
            return;
        }
        if let Some(file) =
            options.operands.first().copied().or_else(|| options.values(&["o", "output"]).next())
        {
            return self.write(file, start.state);
        }
        let strip = options.values(&["p", "strip"]).next().map(|value| value.text.parse().unwrap_or(1));
        let is_here = !options.has(&["i", "input", "d", "directory"]) && !options.doubtful;
        match (&start.stdin, is_here) {
            (Stdin::Text(text), true) => self.diff(text, strip.unwrap_or(0), args, start.state),
            _ => self.unknown(&format!("patch {}", typed(args)), "the files it changes are not known"),
        }
    }

    pub(super) fn diff(&mut self, text: &str, strip: usize, args: &[Arg], state: &State) {
        let paths = patch::unified_paths(text, strip);
        if paths.is_empty() {
            self.unknown(&typed(args), "the files it changes are not known");
        }
        paths.into_iter().for_each(|path| self.write(&Arg::literal(path), state));
    }

    fn apply_patch(&mut self, start: &Start<'_>, args: &[Arg]) {
        let text = match (args, &start.stdin) {
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

    fn editor(&mut self, name: &str, args: &[Arg], state: &State) {
        let options = options::read(args, syntax("c:S:s:u:", &["cmd"]));
        let operands: Vec<&Arg> =
            options.operands.iter().copied().filter(|arg| !arg.text.starts_with('+')).collect();
        operands.iter().for_each(|file| self.write(file, state));
        if operands.len() < options.operands.len()
            || options.has(&["c", "S", "s", "cmd"])
            || operands.is_empty()
        {
            self.unknown(&format!("{name} {}", typed(args)), "an editor's commands are not read");
        }
    }

    fn archive(&mut self, args: &[Arg], state: &State) {
        // The first word may be a bundle of options without a dash.
        let first = args.first().map_or("", |arg| arg.text.as_str());
        let letters = if first.starts_with("--") { "" } else { first.trim_start_matches('-') };
        let has = |letter: char, long: &str| letters.contains(letter) || args.iter().any(|arg| arg.is(long));
        if has('x', "--extract") || has('x', "--get") {
            return self.unknown(&format!("tar {}", typed(args)), "the files it unpacks are not known");
        }
        if has('t', "--list") && !has('c', "--create") {
            return;
        }
        let file = args.get(1).filter(|_| letters.ends_with('f'));
        match file.or_else(|| args.iter().position(|arg| arg.is("-f")).and_then(|at| args.get(at + 1))) {
            Some(file) => self.write(file, state),
            None => self.unknown(&format!("tar {}", typed(args)), "the file it makes is not known"),
        }
    }

    fn compress(&mut self, name: &str, args: &[Arg], state: &State) {
        let options = options::read(args, syntax("S:T:o:", &["suffix", "threads"]));
        if options.has(&["c", "stdout", "t", "test", "l", "list"]) {
            return;
        }
        options.operands.iter().for_each(|file| self.write(file, state));
        if !options.operands.is_empty() {
            self.unknown(&format!("{name} {}", typed(args)), "it makes files with other names");
        }
    }
}

fn transfer_syntax(name: &str) -> Syntax {
    match name {
        "install" => syntax("t:S:m:o:g:", &["target-directory", "suffix", "mode", "owner", "group"]),
        "rsync" => syntax(
            "e:f:M:",
            &["rsh", "exclude", "include", "filter", "exclude-from", "include-from", "files-from"],
        ),
        "scp" => syntax("c:F:i:J:l:o:P:S:", &[]),
        _ => syntax("t:S:", &["target-directory", "suffix"]),
    }
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

/// True if sed edits files in place: `-i`, `-i.bak`, `-Ei`, `-ni`, `--in-place`.
fn in_place(args: &[Arg]) -> bool {
    args.iter().take_while(|arg| !arg.is("--")).any(|arg| {
        arg.text.starts_with("--in-place")
            || (arg.text.starts_with('-')
                && !arg.text.starts_with("--")
                && arg.text[1..]
                    .chars()
                    .take_while(|char| !matches!(char, 'e' | 'f' | 'l'))
                    .any(|char| char == 'i'))
    })
}

/// A one-liner that only changes the line it was given.
fn is_plain_perl(code: &str) -> bool {
    let is_edit =
        code.starts_with("s/") || code.starts_with("s|") || code.starts_with("s{") || code.starts_with("tr/");
    is_edit
        && !["`", "system", "open", "exec", "unlink", "rename", "qx", "/e", "|e", "}e"]
            .iter()
            .any(|bad| code.contains(bad))
}
