//! Follows a script command by command, the way the shell would.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use super::ast::{
    AssignKind, Chain, Command, Effect, Joint, Kind, List, Part, Pipeline, Redirect, RedirectKind, Simple,
    Word,
};
use super::expand::{Arg, Known, expand, value};
use super::notes::typed;
use super::parse::parse;
use super::state::{Function, State};
use super::{MAX_COMMAND_BYTES, Plan, Surroundings, Write, table, variables};
use crate::git;

/// Simple commands that are followed, loops counted as often as they run.
const MAX_STEPS: usize = 20_000;

/// How deep functions, `eval` and shells in shells are followed.
const MAX_NESTING: usize = 12;

/// Values of a loop's variable that are followed one by one.
const MAX_ROUNDS: usize = 16;

/// Where a command gets its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stdin {
    Inherited,
    /// A pipe, a file: not known.
    Elsewhere,
    Text(String),
}

/// One command about to be judged.
pub(super) struct Start<'s> {
    pub(super) state: &'s mut State,
    /// Variables set in front of it.
    pub(super) env: Vec<(String, Arg)>,
    pub(super) stdin: Stdin,
    /// Where a prefix may be put.
    pub(super) spot: Option<Range<usize>>,
    /// Whether guarded commands are looked for; not behind `mala test --`.
    pub(super) is_guarded: bool,
    /// Whether its name may be that of a function; not behind `env` and its like.
    pub(super) may_be_function: bool,
}

impl Start<'_> {
    /// What another program starts in the same place. Functions of the shell mean nothing to it.
    pub(super) fn beneath<'t>(&self, state: &'t mut State) -> Start<'t> {
        Start {
            state,
            env: self.env.clone(),
            stdin: self.stdin.clone(),
            spot: self.spot.clone(),
            is_guarded: self.is_guarded,
            may_be_function: false,
        }
    }
}

pub(super) struct Walker<'a> {
    pub(super) around: Surroundings<'a>,
    pub(super) plan: Plan,
    pub(super) seen_writes: BTreeSet<Write>,
    /// Folders have been made that were not there before.
    pub(super) makes_folders: bool,
    /// What a command reads that has no redirection of its own.
    stdin: Stdin,
    steps: usize,
    nesting: usize,
}

impl<'a> Walker<'a> {
    pub(super) fn new(around: Surroundings<'a>) -> Self {
        Self {
            around,
            plan: Plan::default(),
            seen_writes: BTreeSet::new(),
            makes_folders: false,
            stdin: Stdin::Inherited,
            steps: 0,
            nesting: 0,
        }
    }

    pub(super) fn whole(mut self, command: &str) -> Plan {
        let mut state = State::new(self.around.cwd);
        if command.len() > MAX_COMMAND_BYTES {
            self.unknown(command, "it is too long to be read");
            return self.plan;
        }
        self.text(command, &mut state, true);
        self.plan
    }

    /// A whole text in the shell `state`. `is_original`: the one that was given, so places in it mean something.
    fn text(&mut self, text: &str, state: &mut State, is_original: bool) {
        match parse(text, is_original) {
            Ok(script) => {
                let docs = Rc::new(script.docs);
                let outer = std::mem::replace(&mut state.docs, Rc::clone(&docs));
                docs.iter().for_each(|doc| self.substitutions(doc, state));
                self.list(&script.list, state);
                state.docs = outer;
            }
            Err(problem) => self.unknown(text, &problem.to_string()),
        }
    }

    /// A text that runs in this shell, or in one started for it, and reads `stdin`.
    pub(super) fn nested_text(&mut self, text: &str, stdin: &Stdin, state: &mut State) {
        if self.nesting == MAX_NESTING {
            return self.unknown(text, "it is nested too deeply");
        }
        self.nesting += 1;
        self.reading(stdin, |walker| walker.text(text, state, false));
        self.nesting -= 1;
    }

    /// Follows something whose input is `stdin`.
    fn reading<T>(&mut self, stdin: &Stdin, follow: impl FnOnce(&mut Self) -> T) -> T {
        if *stdin == Stdin::Inherited {
            return follow(self);
        }
        // Which of the commands in it reads how much cannot be known.
        let outer = std::mem::replace(&mut self.stdin, Stdin::Elsewhere);
        let result = follow(self);
        self.stdin = outer;
        result
    }

    fn list(&mut self, list: &List, state: &mut State) {
        for chain in &list.chains {
            if self.steps > MAX_STEPS {
                return;
            }
            if chain.background {
                self.chain(chain, &mut state.clone());
            } else {
                self.chain(chain, state);
            }
        }
    }

    fn chain(&mut self, chain: &Chain, state: &mut State) {
        let start = state.clone();
        let (mut is_sure, mut is_doubtful) = (true, false);
        for (joint, pipeline) in &chain.links {
            let leaves = *joint == Joint::Or && never_returns(pipeline);
            if *joint == Joint::Or && !leaves {
                state.join(&start);
                is_sure = false;
            }
            let before = state.clone();
            let succeeds = self.pipeline(pipeline, state);
            if leaves {
                *state = before;
                continue;
            }
            let is_certain = is_sure && succeeds;
            is_doubtful |= !is_certain && !state.is_same(&before);
            is_sure &= succeeds;
        }
        if is_doubtful {
            state.join(&start);
        }
    }

    /// True if it surely succeeds.
    fn pipeline(&mut self, pipeline: &Pipeline, state: &mut State) -> bool {
        match pipeline.commands.as_slice() {
            [command] => self.command(command, state, Stdin::Inherited),
            commands => {
                let mut stdin = Stdin::Inherited;
                for command in commands {
                    let outer = stdin.clone();
                    self.reading(&outer, |walker| walker.command(command, &mut state.clone(), stdin));
                    stdin = Stdin::Elsewhere;
                }
                false
            }
        }
    }

    fn command(&mut self, command: &Command, state: &mut State, stdin: Stdin) -> bool {
        let stdin = self.redirects(&command.redirects, state, stdin);
        match &command.kind {
            Kind::Simple(simple) => {
                if may_be_exec(simple) && stdin != Stdin::Inherited {
                    self.stdin = Stdin::Elsewhere;
                }
                return self.simple(simple, state, stdin);
            }
            compound => self.reading(&stdin, |walker| walker.compound(compound, state)),
        }
        matches!(command.kind, Kind::Function { .. })
    }

    fn compound(&mut self, kind: &Kind, state: &mut State) {
        match kind {
            Kind::Simple(_) => {}
            Kind::Group(list) => self.list(list, state),
            Kind::Subshell(list) => self.list(list, &mut state.clone()),
            Kind::Test(words) => {
                words.iter().for_each(|word| self.substitutions(word, state));
                let home = self.around.home;
                let args: Vec<Arg> = words.iter().flat_map(|word| expand(word, state, home)).collect();
                self.comparisons(&args);
            }
            Kind::Maybe { words, parts } => {
                words.iter().for_each(|word| self.substitutions(word, state));
                let start = state.clone();
                for part in parts {
                    self.list(part, state);
                    state.join(&start);
                }
                self.again_if_lost(&start, state, |walker, state| {
                    parts.iter().for_each(|part| walker.list(part, state));
                });
            }
            Kind::For { name, items, body } => self.rounds(name, items.as_deref(), body, state),
            Kind::Function { name, body } => {
                let function = Function { body: Rc::new(Command::clone(body)), docs: Rc::clone(&state.docs) };
                if table::find(name).is_some() {
                    self.unknown(&format!("{name}()"), "it changes what commands mean");
                }
                if variables::is_called_by_shell(name) {
                    self.unknown(&format!("{name}()"), "the shell calls it by itself");
                }
                if !state.define(name, function) {
                    self.unknown(name, "there are too many functions to follow");
                }
            }
        }
    }

    fn rounds(&mut self, name: &str, items: Option<&[Word]>, body: &List, state: &mut State) {
        let words = items.unwrap_or_default();
        words.iter().for_each(|word| self.substitutions(word, state));
        let home = self.around.home;
        let mut values: Vec<Arg> = words.iter().flat_map(|word| expand(word, state, home)).collect();
        if items.is_none()
            || values.len() > MAX_ROUNDS
            || values.iter().any(|value| value.known == Known::Head)
        {
            values = vec![Arg::unknown()];
        }
        let start = state.clone();
        for value in values {
            state.set(name, value);
            self.list(body, state);
            state.join(&start);
        }
        self.again_if_lost(&start, state, |walker, state| walker.list(body, state));
    }

    /// What may run again, somewhere else than the first time, is followed once more from nowhere.
    fn again_if_lost(&mut self, start: &State, state: &mut State, run: impl FnOnce(&mut Self, &mut State)) {
        if state.folders != start.folders {
            let mut lost = state.clone();
            lost.folders.clear();
            run(self, &mut lost);
        }
    }

    fn simple(&mut self, simple: &Simple, state: &mut State, stdin: Stdin) -> bool {
        self.steps += 1;
        if self.steps >= MAX_STEPS {
            if self.steps == MAX_STEPS {
                self.plan.unknown.push("the rest of the command: it is too long to be followed".to_owned());
            }
            return false;
        }
        for word in simple.assigns.iter().map(|assign| &assign.value).chain(&simple.words) {
            self.substitutions(word, state);
        }
        let home = self.around.home;
        let args: Vec<Arg> = simple.words.iter().flat_map(|word| expand(word, state, home)).collect();
        let mut env = Vec::new();
        for assign in &simple.assigns {
            let is_plain = assign.kind == AssignKind::Plain;
            let value = if is_plain { value(&assign.value, state, home) } else { Arg::unknown() };
            if assign.kind == AssignKind::Indexed {
                self.unknown(&format!("{}[...]=", assign.name), "the shell evaluates the index");
            }
            if args.is_empty() {
                self.assign(&assign.name, value, state);
            } else {
                env.push((assign.name.clone(), value));
            }
        }
        if args.is_empty() {
            return true;
        }
        let reads = args.first().is_some_and(|program| program.is("read"));
        for (name, value) in env.iter().filter(|(name, _)| !(reads && name == "IFS")) {
            self.note_exported(name, value);
        }
        let spot = match (simple.words.first(), simple.words.last()) {
            (Some(Word { span: Some(first), .. }), Some(Word { span: Some(last), .. })) => {
                Some(first.start..last.end)
            }
            _ => None,
        };
        let stdin = if stdin == Stdin::Inherited { self.stdin.clone() } else { stdin };
        let start = Start { state, env, stdin, spot, is_guarded: true, may_be_function: true };
        self.run(start, &args)
    }

    /// Notes a variable that programs see, unless it is known to change nothing.
    pub(super) fn note_exported(&mut self, name: &str, value: &Arg) {
        if !variables::is_harmless_for_programs(name, value) {
            self.unknown(&format!("{name}=..."), "mala does not know what it changes");
        }
    }

    pub(super) fn assign(&mut self, name: &str, value: Arg, state: &mut State) {
        if let Some(objection) = git::variable_objection(name, self.around.run) {
            self.object(&objection, state);
        }
        if !variables::is_harmless_for_shell(name, &value) {
            self.unknown(&format!("{name}=..."), "mala does not know what it changes");
        }
        state.set(name, value);
    }

    /// Every command inside a word runs, in a shell of its own.
    fn substitutions(&mut self, word: &Word, state: &State) {
        for part in &word.parts {
            match part {
                Part::Command { list, .. } | Part::Process(list) => self.list(list, &mut state.clone()),
                Part::Opaque { inside, effect, .. } => {
                    inside.iter().for_each(|word| self.substitutions(word, state));
                    if *effect == Effect::Unknown {
                        self.unknown("${...}", "it may set variables or evaluate text");
                    }
                }
                Part::Arithmetic { inside, .. } => {
                    self.substitutions(&Word { parts: inside.clone(), span: None }, state);
                    if !is_plain_arithmetic(inside, state) {
                        self.unknown("((...))", "the shell evaluates what its variables say");
                    }
                }
                Part::Bare(_) | Part::Quoted(_) | Part::Variable { .. } => {}
            }
        }
    }

    /// Files that redirections write; where the input comes from.
    fn redirects(&mut self, redirects: &[Redirect], state: &State, mut stdin: Stdin) -> Stdin {
        for redirect in redirects {
            self.substitutions(&redirect.target, state);
            match redirect.kind {
                RedirectKind::Read => stdin = Stdin::Elsewhere,
                RedirectKind::HereString => {
                    let text = value(&redirect.target, state, self.around.home);
                    stdin = text.as_literal().map_or(Stdin::Elsewhere, |text| Stdin::Text(text.to_owned()));
                }
                RedirectKind::HereDoc { doc } => {
                    let text = state.docs.get(doc).map(|word| value(word, state, self.around.home));
                    let text = text.as_ref().and_then(Arg::as_literal);
                    stdin = text.map_or(Stdin::Elsewhere, |text| Stdin::Text(text.to_owned()));
                }
                RedirectKind::Duplicate => {
                    let targets = expand(&redirect.target, state, self.around.home);
                    let is_descriptor =
                        |arg: &Arg| arg.text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                    targets.iter().filter(|arg| !is_descriptor(arg)).for_each(|arg| self.write(arg, state));
                }
                RedirectKind::Write => {
                    expand(&redirect.target, state, self.around.home)
                        .iter()
                        .for_each(|arg| self.write(arg, state));
                }
            }
        }
        stdin
    }

    /// A function's body, its arguments bound.
    pub(super) fn call(&mut self, function: &Function, start: Start<'_>, args: &[Arg]) {
        if self.nesting == MAX_NESTING {
            return self.unknown(&typed(args), "it is nested too deeply");
        }
        self.nesting += 1;
        let state = start.state;
        let outer = state.enter_function(&start.env, args, &function.docs);
        self.command(&function.body, state, start.stdin);
        state.leave_function(outer);
        self.nesting -= 1;
    }
}

/// True if an expression reads nothing but numbers and sets nothing. The shell evaluates what a variable says, too.
fn is_plain_arithmetic(inside: &[Part], state: &State) -> bool {
    let is_number = |name: &str| {
        let value = state.variable(name, None);
        value.is_some_and(|value| value.as_literal().is_some_and(is_integer))
    };
    inside.iter().all(|part| match part {
        Part::Bare(text) | Part::Quoted(text) => {
            let is_sign = |char: char| !(char.is_ascii_alphanumeric() || char == '_');
            let names =
                text.split(is_sign).filter(|word| !word.starts_with(|char: char| char.is_ascii_digit()));
            let compared =
                ["==", "!=", "<=", ">="].iter().fold(text.clone(), |text, sign| text.replace(sign, " "));
            let sets = compared.contains('=') || text.contains("++") || text.contains("--");
            !sets && !text.contains(['[', '\\', '\'']) && names.filter(|name| !name.is_empty()).all(is_number)
        }
        Part::Variable { name, .. } => matches!(name.as_str(), "#" | "?" | "$" | "!") || is_number(name),
        Part::Arithmetic { inside, .. } => is_plain_arithmetic(inside, state),
        Part::Command { .. } | Part::Process(_) | Part::Opaque { .. } => false,
    })
}

/// True for `12` and `-3`.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// True if the shell is gone, or the function left, after it.
fn never_returns(pipeline: &Pipeline) -> bool {
    match pipeline.commands.as_slice() {
        [Command { kind: Kind::Simple(simple), .. }] => {
            let name = simple.words.first().and_then(Word::bare);
            matches!(name, Some("exit" | "return" | "break" | "continue"))
        }
        [Command { kind: Kind::Group(list), .. }] => {
            let last = list.chains.last().and_then(|chain| chain.links.last());
            last.is_some_and(|(_, pipeline)| never_returns(pipeline))
        }
        _ => false,
    }
}
/// True if its redirections may be the shell's own from now on.
fn may_be_exec(simple: &Simple) -> bool {
    let Some(first) = simple.words.first() else { return false };
    // What comes behind these is looked up by the shell itself.
    matches!(first.bare(), None | Some("exec" | "builtin" | "command" | "-" | "noglob" | "nocorrect"))
}
