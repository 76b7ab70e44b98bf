//! An agent that does what it is told on its standard input, one command a line, and says what came of it.
//!
//! `puppet CHECKOUT AGENT [owner=PID] [ttl=MILLIS] [supervised]`, then
//!
//! | told | says |
//! | --- | --- |
//! | `reserve WANT...` | `granted N`, or `refused held` and the like |
//! | `wait MILLIS WANT...` | the same; before that `waiting`, if it has to |
//! | `release` | `released N` |
//! | `sweep` | `swept N`: how many locks |
//! | `turn` | `holding`: it has taken the write turn and keeps it |
//!
//! It ends with its input, or with a line `error ...` when the store fails.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use mala_core::Scope;
use mala_store::process::Process;
use mala_store::{Cause, Outcome, Party, Released, Request, Result, Store, Which};
use mala_tests::{ONLY_THE_DEAD, ask, party, wants};

fn main() {
    if let Err(error) = run() {
        say(&format!("error {error:?}"));
        std::process::exit(1);
    }
}

struct Puppet {
    store: Store,
    party: Party,
    ttl: Duration,
    turn: PathBuf,
}

fn run() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let checkout = PathBuf::from(args.next().expect("the first argument is the checkout"));
    let scope = Scope::discover(&checkout).expect("it is a checkout");
    let store = Store::open(&scope)?;
    let party = party(&args.next().expect("the second argument is the agent"));
    let mut puppet = Puppet { store, party, ttl: ask::TTL, turn: scope.state_dir().join("turn") };
    for option in args {
        match option.split_once('=') {
            Some(("owner", pid)) => {
                let pid = pid.parse().expect("a pid is a number");
                puppet.party.owner = Process::find(pid).expect("the owner is running").owner();
            }
            Some(("ttl", millis)) => puppet.ttl = Duration::from_millis(millis.parse().expect("a number")),
            _ => puppet.party.supervised = true,
        }
    }
    say("ready");
    let mut kept = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line.expect("commands are text");
        let mut words = line.split(' ');
        let command = words.next().expect("a command is not empty");
        let rest: Vec<&str> = words.collect();
        match command {
            "turn" => kept.push(puppet.take_turn()),
            _ => puppet.obey(command, &rest)?,
        }
    }
    Ok(())
}

impl Puppet {
    fn obey(&mut self, command: &str, words: &[&str]) -> Result<()> {
        match command {
            "reserve" => say_outcome(&self.store.reserve(&self.request(words))?),
            "wait" => {
                let patience = Duration::from_millis(words[0].parse().expect("patience is a number"));
                let request = self.request(&words[1..]);
                say_outcome(&self.store.reserve_or_wait(&request, patience, |_| say("waiting"))?);
            }
            "release" => match self.store.release(&self.party.agent, &Which::All)? {
                Released::Done(locks) => say(&format!("released {}", locks.len())),
                Released::NotYours(_) => say("not mine"),
            },
            "sweep" => {
                let swept = self.store.sweep(ONLY_THE_DEAD)?;
                say(&format!("swept {}", swept.locks.len()));
            }
            other => panic!("this puppet cannot `{other}`"),
        }
        Ok(())
    }

    fn request(&self, texts: &[&str]) -> Request {
        Request { party: self.party.clone(), wants: wants(texts), ttl: self.ttl, reason: None }
    }

    fn take_turn(&self) -> File {
        let file = File::options().write(true).open(&self.turn).expect("the turn file is there");
        file.lock().expect("the turn can be taken");
        say("holding");
        file
    }
}

fn say_outcome(outcome: &Outcome) {
    match outcome {
        Outcome::Granted(locks) => say(&format!("granted {}", locks.len())),
        Outcome::Refused(refusal) => say(match refusal.cause {
            Cause::Held => "refused held",
            Cause::TimedOut => "refused late",
            Cause::Deadlock(_) => "refused circle",
            Cause::GivenUp => "refused given up",
        }),
    }
}

fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the test listens");
}
