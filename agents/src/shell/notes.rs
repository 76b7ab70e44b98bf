//! What the plan says in the end: writes, objections, tests, and what is not known.

use std::ops::Range;
use std::path::{Path, PathBuf};

use mala_core::Pattern;

use super::expand::{Arg, Known};
use super::state::State;
use super::walk::Walker;
use super::{TestCommand, Write};
use crate::intent::MAX_PATH_BYTES;
use crate::objection::{Objection, When};
use crate::protected;

/// How much of an unknown command is quoted back.
const MAX_QUOTE: usize = 80;

impl Walker<'_> {
    pub(super) fn test(&mut self, args: &[Arg], spot: Option<Range<usize>>) {
        let argv =
            args.iter().map(|arg| if arg.known == Known::Head { "?".to_owned() } else { arg.text.clone() });
        let test = TestCommand { argv: argv.collect(), range: spot };
        if !self.plan.tests.contains(&test) {
            self.plan.tests.push(test);
        }
    }

    pub(super) fn unknown(&mut self, what: &str, why: &str) {
        let mut quote: String = what.chars().take(MAX_QUOTE).collect();
        if quote.len() < what.len() {
            quote.push_str("...");
        }
        let line = format!("`{quote}`: {why}");
        if !self.plan.unknown.contains(&line) && self.plan.unknown.len() < 100 {
            self.plan.unknown.push(line);
        }
    }

    /// Notes an objection, for each folder it may be about.
    pub(super) fn object(&mut self, objection: &Objection, state: &State) {
        let folders = state.folders.iter().map(|folder| Some(folder.clone()));
        let folders: Vec<_> = if state.folders.is_empty() { vec![None] } else { folders.collect() };
        for folder in folders {
            let objection = Objection { folder, ..objection.clone() };
            if !self.plan.objections.contains(&objection) && self.plan.objections.len() < 100 {
                self.plan.objections.push(objection);
            }
        }
    }

    /// The paths an operand means: none if that is unknown, which is then noted.
    pub(super) fn paths(&mut self, arg: &Arg, state: &State) -> Vec<PathBuf> {
        match arg.known {
            // The kernel opens no such file.
            _ if arg.text.len() > MAX_PATH_BYTES => Vec::new(),
            Known::All if Path::new(&arg.text).is_absolute() => vec![PathBuf::from(&arg.text)],
            Known::All if !state.folders.is_empty() => {
                state.folders.iter().map(|folder| folder.join(&arg.text)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Notes that the operand's file is written.
    pub(super) fn write(&mut self, arg: &Arg, state: &State) {
        match arg.known {
            Known::All => {
                let paths = self.paths(arg, state);
                if paths.is_empty() {
                    self.unknown(&arg.text, "it is written in a folder that is not known");
                }
                paths.into_iter().for_each(|path| self.note(Write::File(path)));
            }
            Known::Pattern => self.write_pattern(&arg.text, state),
            Known::Head => {
                self.unknown(&format!("{}...", arg.text), "it is written, and its name is not known");
            }
        }
    }

    /// Notes that something else is staged of the operand's file. What is staged in a folder, or by a pattern, is known only then.
    pub(super) fn stage(&mut self, arg: &Arg, state: &State) {
        let names_folder = matches!(arg.text.rsplit('/').next(), Some("" | "." | ".."));
        if arg.known == Known::All && !names_folder {
            for path in self.paths(arg, state) {
                if !self.is_folder(&path) {
                    self.note(Write::Staged(path));
                }
            }
        }
    }

    /// The file, and everything below it if it is a folder.
    pub(super) fn write_tree(&mut self, arg: &Arg, state: &State) {
        self.write(arg, state);
        self.write_below(arg, state);
    }

    /// Everything below the folder.
    pub(super) fn write_below(&mut self, arg: &Arg, state: &State) {
        match arg.known {
            Known::All => {
                for base in self.paths(arg, state) {
                    self.note(Write::Pattern { base, rest: "**".to_owned() });
                }
            }
            Known::Pattern => self.write_pattern(&format!("{}/**", arg.text), state),
            Known::Head => {}
        }
    }

    fn write_pattern(&mut self, pattern: &str, state: &State) {
        // Up to the last folder that stands for itself, so that links on the way can be resolved.
        let wild = pattern.find(['*', '?', '[', '\\']).unwrap_or(pattern.len());
        let split = pattern[..wild].rfind('/').map_or(0, |slash| slash + 1);
        let folder = Arg::literal(if split == 0 { "." } else { &pattern[..split] });
        let rest = &pattern[split..];
        let rest = if Pattern::parse(rest.as_bytes()).is_ok() { rest } else { "**" };
        let bases = self.paths(&folder, state);
        if bases.is_empty() {
            self.unknown(pattern, "it is written in a folder that is not known");
        }
        for base in bases {
            self.note(Write::Pattern { base, rest: rest.to_owned() });
        }
    }

    fn note(&mut self, write: Write) {
        if !self.seen_writes.insert(write.clone()) {
            return;
        }
        let path = match &write {
            Write::File(path) | Write::Staged(path) => path.clone(),
            Write::Pattern { base, rest } => base.join(rest),
        };
        if let Some(objection) = protected::objection(&path)
            && (objection.when != When::InRun || self.around.run.is_some())
        {
            self.plan
                .objections
                .push(Objection { folder: path.parent().map(Path::to_path_buf), ..objection });
        }
        if self.is_setting(&path) {
            self.unknown(&path.display().to_string(), "programs read it as settings");
        }
        self.plan.writes.push(write);
    }

    /// True for what programs of this user may read when they start: `~/.gitconfig`, `~/.config/...`.
    fn is_setting(&self, path: &Path) -> bool {
        let hidden = |path: &Path| {
            let first = path.strip_prefix(self.around.home?).ok()?.components().next()?;
            first.as_os_str().as_encoded_bytes().starts_with(b".").then(|| first.as_os_str().to_owned())
        };
        let place = hidden(&path_clean::clean(path));
        place.is_some() && place != hidden(self.around.cwd)
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        (self.around.exists)(&path.join("."))
    }
}

/// The command as somebody would read it.
pub(super) fn typed(args: &[Arg]) -> String {
    let mut text = String::new();
    for arg in args {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&arg.text);
        if arg.known == Known::Head {
            text.push('?');
        }
        if text.len() > 4 * MAX_QUOTE {
            break;
        }
    }
    text
}
