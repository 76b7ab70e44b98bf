//! Every way around that we know, each tried on a held file.
//!
//! An attack that changes nothing without the sandbox proves nothing, so each is first shown to work.

mod python;
mod shell;

use std::collections::BTreeMap;

use crate::world::{Mode, Outcome, User, World, have, in_parallel};

struct Attack {
    name: &'static str,
    needs: &'static [&'static str],
    /// Run by someone outside, before.
    setup: &'static str,
    script: Script,
}

/// What an attack relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Editors, redirections, programs that write.
    Writing,
    /// Rename, unlink, link over, truncate, chmod.
    Names,
    /// Symbolic and hard links, `/proc`.
    Aliases,
    /// Other ABIs, `io_uring`, `openat2`, handles, calls that libraries do not make.
    Interfaces,
    /// Forks, daemons, threads, static programs.
    Processes,
    /// `ptrace`, memory and descriptors of processes outside the tree.
    Outsiders,
    Namespaces,
    /// Swapping what is being looked at.
    Races,
    InodeFlags,
    Git,
}

#[derive(Clone, Copy)]
enum Script {
    Shell(&'static str),
    Python(&'static str),
}

const fn shell(name: &'static str, needs: &'static [&'static str], script: &'static str) -> Attack {
    Attack { name, needs, setup: "", script: Script::Shell(script) }
}

const fn python(name: &'static str, script: &'static str) -> Attack {
    Attack { name, needs: &["python3"], setup: "", script: Script::Python(script) }
}

impl Attack {
    const fn after(self, setup: &'static str) -> Self {
        Self { setup, ..self }
    }

    /// Runs it on a fresh checkout; true if anything that must not change did.
    fn changes(&self, user: User, mode: Mode) -> (bool, Outcome) {
        let world = World::new(user);
        if !self.setup.is_empty() {
            // Not waited for: it may leave a process behind on purpose.
            world.sh(Mode::Bare, &format!("({}) >/dev/null 2>&1", self.setup));
        }
        let before = world.print();
        let outcome = match self.script {
            Script::Shell(script) => world.sh(mode, script),
            Script::Python(script) => {
                let script = format!("from kernel import *\n{script}");
                Outcome::of(world.command(mode, "python3", &["-c", &script]).spawn().unwrap())
            }
        };
        (world.print() != before, outcome)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Held,
    /// The attack does nothing here even without a sandbox.
    Harmless,
    Broken,
}

fn try_attack(attack: &Attack, user: User) -> (Finding, String) {
    if !have(attack.needs) || !attack.changes(user, Mode::Bare).0 {
        return (Finding::Harmless, String::new());
    }
    match attack.changes(user, Mode::Sandboxed) {
        (true, outcome) => (Finding::Broken, format!("got through\n{}{}", outcome.out, outcome.err)),
        (false, Outcome { code: None, .. }) => (Finding::Broken, "did not end".to_owned()),
        (false, outcome) if outcome.err.contains("supervise:") => (Finding::Broken, outcome.err),
        (false, _) => (Finding::Held, String::new()),
    }
}

/// As many as must really be tried for the test to mean something; the rest depends on installed programs.
const AT_LEAST: usize = 120;

#[test]
fn no_known_attack_changes_a_held_file() {
    let groups = shell::SHELL.iter().chain(python::PYTHON);
    let attacks: Vec<(Class, &Attack)> =
        groups.flat_map(|(class, attacks)| attacks.iter().map(|attack| (*class, attack))).collect();
    for user in User::all() {
        let results = in_parallel(&attacks, |(_, attack)| try_attack(attack, user));
        let named = |wanted: Finding| {
            attacks
                .iter()
                .zip(&results)
                .filter(move |(_, found)| found.0 == wanted)
                .map(|((class, attack), found)| (*class, attack.name, &found.1))
        };
        let harmless: Vec<_> = named(Finding::Harmless).map(|(_, name, _)| name).collect();
        let broken: Vec<_> = named(Finding::Broken).map(|(_, name, why)| format!("{name}: {why}")).collect();
        let mut held: BTreeMap<Class, usize> = BTreeMap::new();
        named(Finding::Held).for_each(|(class, ..)| *held.entry(class).or_default() += 1);
        let all: usize = held.values().sum();
        println!("{user:?}: {all} attacks held: {held:?}; {} do nothing here: {harmless:?}", harmless.len());
        assert!(broken.is_empty(), "{user:?}: {} attacks\n{}", broken.len(), broken.join("\n---\n"));
        assert!(all >= AT_LEAST, "{user:?}: only {all} attacks were possible here");
        let untried = attacks.iter().map(|(class, _)| class).find(|class| !held.contains_key(class));
        // Whether an ordinary user can make namespaces is the system's choice.
        assert!(
            untried.is_none_or(|class| *class == Class::Namespaces),
            "{user:?}: nothing tried of {untried:?}"
        );
    }
}

#[test]
fn root_does_not_tell_the_kernel_what_to_run() {
    let world = World::new(User::Myself);
    let is_root = world.sh(Mode::Bare, "test $(id -u) = 0").code == Some(0);
    if !is_root {
        return;
    }
    for file in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hotplug",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/vm/overcommit_memory",
        "/sys/kernel/uevent_helper",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        // Nothing is written, so nothing changes where it is allowed.
        for open in [
            ": >> $F",
            "ln -s $F $OUT/l; : >> $OUT/l",
            "cd ${F%/*} && : >> ${F##*/}",
            ": >> /proc/self/root$F",
        ] {
            let script = format!("F={file}; test -e $F || exit 77; rm -f $OUT/l; {open}");
            let outcome = world.sh(Mode::Sandboxed, &script);
            assert_ne!(outcome.code, Some(0), "{script}: {outcome:?}");
        }
    }
    let own = "echo 7 > /proc/self/coredump_filter && sh -c 'echo 7 > /proc/self/coredump_filter && echo 500 > /proc/self/oom_score_adj' && echo yes";
    let outcome = world.sh(Mode::Sandboxed, own);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}
