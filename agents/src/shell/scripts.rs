//! Programs that run a script of their own: what the script does to files.

use super::expand::{Arg, Known};
use super::notes::typed;
use super::programs::Call;
use super::sed;
use super::state::State;
use super::walk::Walker;

impl Walker<'_> {
    pub(super) fn sed(&mut self, call: &Call<'_>, state: &State) {
        let options = &call.options;
        let given: Vec<&Arg> = options.values(&["e", "expression"]).collect();
        let has_script = !given.is_empty() || options.has(&["f", "file"]);
        // `sed -i '' SCRIPT FILE`: elsewhere than on Linux, the suffix is a word of its own.
        let has_suffix = options.has(&["i"]) && options.operands.first().is_some_and(|first| first.is(""));
        let operands = &options.operands[usize::from(has_suffix)..];
        let files = &operands[usize::from(!has_script).min(operands.len())..];
        // `-Ei` and `-ni` are read letter by letter; `-i.bak` also makes a copy.
        if in_place(call.args) {
            files.iter().for_each(|file| self.write(file, state));
            for suffix in options.values(&["i", "in-place"]).filter(|suffix| !suffix.text.is_empty()) {
                self.copies(files, suffix, state);
            }
        }
        let scripts = given.into_iter().chain(operands.first().copied().filter(|_| !has_script));
        let is_read = |script: &Arg| script.known != Known::Head && sed::is_harmless(&script.text);
        if options.has(&["f", "file"]) || !scripts.into_iter().all(is_read) {
            self.unknown(&typed(call.all), "its script writes files or runs commands");
        }
    }

    /// What is kept of files that are edited in place.
    fn copies(&mut self, files: &[&Arg], suffix: &Arg, state: &State) {
        for file in files {
            let text = match suffix.text.contains('*') {
                true => suffix.text.replace('*', &file.text),
                false => format!("{}{}", file.text, suffix.text),
            };
            let known = if suffix.known == Known::All { file.known } else { suffix.known };
            self.write(&Arg { text, known, span: None }, state);
        }
    }

    pub(super) fn perl(&mut self, call: &Call<'_>, state: &State) {
        let options = &call.options;
        let mut letters = call.args.iter().take_while(|arg| arg.text.starts_with('-'));
        let is_in_place = options.has(&["i"]) || letters.any(|arg| arg.is("-pi") || arg.is("-ni"));
        let code: Vec<&Arg> = options.values(&["e", "E"]).collect();
        if is_in_place && !code.is_empty() {
            options.operands.iter().for_each(|file| self.write(file, state));
            for suffix in options.values(&["i"]).filter(|suffix| !suffix.text.is_empty()) {
                self.copies(&options.operands, suffix, state);
            }
        }
        let is_read = |code: &&Arg| code.known == Known::All && is_plain_perl(&code.text);
        // It starts the file `cmd|` and writes the file `>name`.
        let is_file = |arg: &&Arg| arg.known == Known::All && !arg.text.contains(['|', '<', '>', '&']);
        let is_plain = code.iter().all(is_read) && options.operands.iter().all(is_file);
        if code.is_empty() || !is_plain {
            self.unknown(&typed(call.all), "it runs code that is not read");
        }
    }

    pub(super) fn awk(&mut self, call: &Call<'_>, state: &State) {
        let options = &call.options;
        let is_in_place = options.values(&["i", "include"]).any(|value| value.text.starts_with("inplace"));
        let has_file = options.has(&["f", "file"]);
        if is_in_place {
            options.operands.iter().skip(usize::from(!has_file)).for_each(|file| self.write(file, state));
        }
        let program = options.operands.first().filter(|_| !has_file);
        let is_read =
            program.is_some_and(|program| program.known != Known::Head && is_plain_awk(&program.text));
        if !is_read || options.has(&["i", "include"]) {
            self.unknown(&typed(call.all), "its program may write files or run commands");
        }
    }
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

/// `s/a/b/g` and `tr/a/b/` without anything that perl would run.
fn is_plain_perl(code: &str) -> bool {
    let code = code.trim_end_matches([';', ' ']);
    let rest = ["s", "tr", "y"].iter().find_map(|verb| code.strip_prefix(verb));
    let Some((sign, rest)) = rest.and_then(|rest| Some((rest.chars().next()?, rest.get(1..)?))) else {
        return false;
    };
    if !"/|,!#".contains(sign) || ["@", "${", "(?{", "(??", "\\@"].iter().any(|bad| rest.contains(bad)) {
        return false;
    }
    // `$x[...]` and `$x{...}` hold expressions.
    let is_element = |after: &str| {
        let name = after.trim_start_matches(|char: char| char.is_ascii_alphanumeric() || char == '_');
        name.starts_with(['[', '{', '-'])
    };
    if rest.contains('`') || rest.split('$').skip(1).any(is_element) {
        return false;
    }
    // An escaped sign would have to be told apart from one that ends a part.
    let parts: Vec<&str> = rest.split(sign).collect();
    let is_escaped = |part: &&str| part.ends_with('\\');
    matches!(parts.as_slice(), [pattern, text, flags]
        if ![pattern, text].into_iter().any(is_escaped) && flags.chars().all(|flag| "gimsxdcr".contains(flag)))
}

/// A program that surely prints to standard output and starts nothing.
fn is_plain_awk(program: &str) -> bool {
    let compares = program.replace(">=", " ").replace("||", " ");
    let redirects = program.contains("print") && compares.contains('>');
    !redirects
        && !compares.contains('|')
        && !["system", "@", "getline"].iter().any(|bad| program.contains(bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_substitution_is_plain_perl() {
        for code in ["s/a/b/", "s|a|b|g;", "tr/a-z/A-Z/", "s/(\\w+)/<$1>/gi"] {
            assert!(is_plain_perl(code), "{code}");
        }
        for code in [
            "s/a/b/e",
            "s/a/b/;unlink x",
            "s/a/@{[`x`]}/",
            "s/(?{x})//",
            "s/a\\/b/c/e",
            "print",
            "s{a}{b}",
            "system",
            "s/a/$x[`x`]/",
            "s/$h{f()}//",
        ] {
            assert!(!is_plain_perl(code), "{code}");
        }
    }

    #[test]
    fn awk_that_may_write_or_run_is_not_plain() {
        for program in ["{print $1}", "$3 > 5", "NR>=2 {print}", "a || b {print}"] {
            assert!(is_plain_awk(program), "{program}");
        }
        for program in [
            "{print > f}",
            "{printf \"x\" >> f}",
            "BEGIN{c|getline}",
            "{print | c}",
            "BEGIN{system(c)}",
            "@load \"x\"",
            "BEGIN{@f()}",
            "{print >= f}{print>f}",
        ] {
            assert!(!is_plain_awk(program), "{program}");
        }
    }
}
