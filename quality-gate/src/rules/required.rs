//! Every required command needs a record of this agent that it passed on what was committed.
//!
//! Records are read from the newest. The newest one that ran on the committed content decides, so a pass does not
//! outlive a later failure on the same content. If there is none, the newest near miss explains why.

use std::ops::ControlFlow;

use mala_core::issue::parse_moment;
use mala_core::{AgentId, CheckName, CommandPattern, EvidenceId, Timestamp};
use mala_git::{Ownership, Repo, RepoPath};
use mala_logs::chain::{ChainError, Verified};

use super::command::{self, Lacking};
use super::fit::{Committed, Fit};
use super::{GateError, Judge, Records, Rules, Subject};
use crate::Evidence;
use crate::evidence::anchoring::AnchorError;
use crate::evidence::{Of, Sighting, Strength};
use crate::verdict::{Check, list};

const NAME: CheckName = CheckName::Command;

/// What is known about one required command.
#[derive(Debug)]
struct Case<'a> {
    pattern: &'a CommandPattern,
    /// All ways to write it.
    forms: Vec<CommandPattern>,
    decision: Option<Decision>,
    /// The newest record that does not count, and why.
    miss: Option<Miss>,
}

#[derive(Debug)]
struct Decision {
    evidence: Evidence,
    foreign: Vec<RepoPath>,
}

#[derive(Debug)]
struct Miss {
    id: EvidenceId,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Lacking(Lacking),
    Unfit(Fit),
    /// It failed, on content that is not the committed one either.
    Failed(String),
    BeforeClaim,
}

/// The checks of all required commands, and what they say about others' edits.
///
/// Nothing is read from the log before it has been `verified` as a whole.
pub(super) fn check(
    judge: &Judge<'_>,
    committed: Committed<'_>,
    verified: impl FnOnce() -> Result<Verified, AnchorError>,
) -> Result<Vec<Check>, GateError> {
    let Judge { repo, ownership, records, rules, subject } = *judge;
    if rules.required.is_empty() {
        return Ok(vec![Check::skipped(
            NAME,
            "no command is required: name some in [validate] of mala.toml",
        )]);
    }
    if let Err(broken) = verified() {
        return match broken {
            AnchorError::Log(ChainError::Broken(broken)) => Ok(vec![Check::fail(
                CheckName::EvidenceLog,
                format!(
                    "the evidence was tampered with: {broken}; `mala logs verify` says what a person can do about it"
                ),
            )]),
            other => Err(other.into()),
        };
    }
    let mut search = Search { repo, ownership, rules, subject, committed, cases: Vec::new() };
    search.cases = rules.required.iter().map(|command| Case::new(command, &rules.equivalents)).collect();
    search.run(records)?;
    let mut checks = Vec::new();
    for case in &search.cases {
        checks.push(case.check(records, subject)?);
    }
    checks.push(foreign_edits(&search.cases));
    Ok(checks)
}

struct Search<'a> {
    repo: &'a Repo,
    ownership: &'a dyn Ownership,
    rules: &'a Rules,
    subject: &'a Subject,
    committed: Committed<'a>,
    cases: Vec<Case<'a>>,
}

impl Search<'_> {
    fn run(&mut self, records: &Records<'_>) -> Result<(), GateError> {
        let agent = self.subject.agent.clone();
        match &agent {
            Some(agent) => self.scan(records, Of::Agent(agent))?,
            None => {
                for at in 0..self.cases.len() {
                    let word = program(self.cases[at].pattern);
                    self.scan(records, Of::Anyone { word: &word })?;
                }
            }
        }
        // Weaker evidence counts only where there is no better.
        for evidence in records.transcripts {
            if agent.as_ref().is_none_or(|agent| *agent == evidence.agent)
                && self.consider(evidence)?.is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn scan(&mut self, records: &Records<'_>, of: Of<'_>) -> Result<(), GateError> {
        let mut has_met_claim = false;
        records.log.sift(of, |sighting| {
            // One record from before the claim is looked at, to be able to say so.
            if has_met_claim {
                return Ok(ControlFlow::Break(()));
            }
            let head = &sighting.head;
            let is_required = self.cases.iter().any(|case| case.is(&head.argv));
            has_met_claim = is_required && self.is_before_claim(&head.id, parse_moment(&head.ended_at))?;
            if is_required && self.can_tell_something(sighting)? {
                return self.consider(&sighting.evidence()?);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// True if the record could decide, or explain why nothing does. Long logs are mostly of records that do neither.
    fn can_tell_something(&mut self, sighting: &Sighting<'_>) -> Result<bool, GateError> {
        let is_open = |case: &&Case<'_>| case.decision.is_none() && case.is(&sighting.head.argv);
        let mut open = self.cases.iter().filter(is_open).peekable();
        if open.peek().is_none() {
            return Ok(false);
        }
        Ok(open.any(|case| case.miss.is_none()) || self.committed.can_fit(sighting)?)
    }

    /// True if a test was over before the issue was claimed. Where no event says so, as of what a client has written down, the
    /// time does.
    fn is_before_claim(&self, test: &EvidenceId, ended_at: Option<Timestamp>) -> Result<bool, GateError> {
        let (Some(claim), Some(agent)) = (self.subject.claim, &self.subject.agent) else { return Ok(false) };
        let events = self.ownership.test_events(agent, test)?;
        Ok(match events.ended.or(events.began) {
            Some(event) => event < claim.event,
            None => ended_at.is_some_and(|ended_at| ended_at < claim.at),
        })
    }

    /// Looks at one record; breaks off when everything is decided.
    fn consider(&mut self, evidence: &Evidence) -> Result<ControlFlow<()>, GateError> {
        for at in 0..self.cases.len() {
            if self.cases[at].decision.is_none() {
                self.judge(at, evidence)?;
            }
        }
        Ok(match self.cases.iter().all(|case| case.decision.is_some()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    fn judge(&mut self, at: usize, evidence: &Evidence) -> Result<(), GateError> {
        let case = &self.cases[at];
        let root = self.repo.root();
        let directory = root.join(&self.rules.directory).join(case.pattern.directory());
        let Some(lacking) = command::judge(&case.forms, evidence, root, &directory) else {
            return Ok(());
        };
        let is_before_claim = self.is_before_claim(&evidence.id, Some(evidence.ended_at))?;
        let case = &mut self.cases[at];
        let why = match lacking {
            _ if is_before_claim => Why::BeforeClaim,
            Some(lacking) => Why::Lacking(lacking),
            None => match self.committed.compare(evidence, self.rules.foreign)? {
                Fit::Fits { foreign } => {
                    case.decision = Some(Decision { evidence: evidence.clone(), foreign });
                    return Ok(());
                }
                _ if !evidence.has_passed() => Why::Failed(evidence.ending()),
                unfit => Why::Unfit(unfit),
            },
        };
        case.miss.get_or_insert(Miss { id: evidence.id.clone(), why });
        Ok(())
    }
}

fn program(pattern: &CommandPattern) -> String {
    pattern.program().to_owned()
}

impl<'a> Case<'a> {
    fn new(pattern: &'a CommandPattern, equivalents: &[Vec<CommandPattern>]) -> Self {
        Self { pattern, forms: command::forms(pattern, equivalents), decision: None, miss: None }
    }

    fn is(&self, argv: &[String]) -> bool {
        self.forms.iter().any(|form| form.matches(argv))
    }

    fn check(&self, records: &Records<'_>, subject: &Subject) -> Result<Check, GateError> {
        let command = self.pattern;
        let again = match command.directory() {
            "" => format!("run `mala test -- {command}`"),
            directory => format!("run `cd {directory} && mala test -- {}`", command.line()),
        };
        if let Some(Decision { evidence, .. }) = &self.decision {
            let ran = evidence.command();
            let check = if evidence.has_passed() {
                let strength = match evidence.strength {
                    Strength::Observed => "",
                    Strength::Transcript => " (as its client's transcript says)",
                };
                Check::pass(NAME, format!("`{ran}` passed on what was committed{strength}"))
            } else {
                let ending = evidence.ending();
                Check::fail(
                    NAME,
                    format!("`{ran}` failed on what was committed ({ending}): fix it, then {again}"),
                )
            };
            return Ok(check.with([evidence.id.clone()]));
        }
        if let Some(miss) = &self.miss {
            return Ok(Check::fail(NAME, miss.sentence(command, &again)).with([miss.id.clone()]));
        }
        let detail = match (&subject.agent, self.somebody_else(records)?) {
            (Some(agent), Some(other)) => {
                format!("only `{other}` has run `{command}`, `{agent}` has not: {again}")
            }
            (Some(agent), None) => format!("`{agent}` has not run `{command}` under mala: {again}"),
            (None, _) => {
                format!("nobody has run `{command}` under mala: {again}, or `mala gate check --rerun`")
            }
        };
        Ok(Check::fail(NAME, detail))
    }

    /// Another agent that has run the command.
    fn somebody_else(&self, records: &Records<'_>) -> Result<Option<AgentId>, GateError> {
        let word = program(self.pattern);
        let mut other = None;
        records.log.sift(Of::Anyone { word: &word }, |sighting| {
            if !self.is(&sighting.head.argv) {
                return Ok(ControlFlow::Continue(()));
            }
            other = Some(sighting.evidence()?.agent);
            Ok::<_, GateError>(ControlFlow::Break(()))
        })?;
        Ok(other)
    }
}

impl Miss {
    fn sentence(&self, command: &CommandPattern, again: &str) -> String {
        let isolated = format!("run `mala test --isolated -- {command}`");
        match &self.why {
            Why::Lacking(Lacking::Hollow(option)) => {
                format!("`{command}` was only run with `{option}`, which tests nothing: {again}")
            }
            Why::Lacking(Lacking::Elsewhere) => {
                format!("`{command}` was run outside this checkout: {again} inside it")
            }
            Why::Lacking(Lacking::Narrowed) => {
                format!(
                    "only a part of `{command}` was run: {again}, with nothing added, where it is required (`validate.directory`, else the \
                     top of the checkout)"
                )
            }
            Why::Failed(ending) => format!("the last `{command}` failed ({ending}): fix it, then {again}"),
            Why::BeforeClaim => {
                format!("the last `{command}` was before the issue was claimed: {again}")
            }
            Why::Unfit(Fit::Unsteady(path)) => {
                format!(
                    "`{path}` was changed while `{command}` ran, so it is unknown what was tested: {again}"
                )
            }
            Why::Unfit(Fit::Leftover(path)) => format!(
                "when `{command}` ran, `{path}` was changed too, and it is not in the commit: commit it as well \
                 (`mala commit`), or restore it and {again}"
            ),
            Why::Unfit(Fit::Foreign(path)) => format!(
                "somebody else's `{path}` was different when `{command}` ran: {isolated}, on nobody's changes but yours"
            ),
            Why::Unfit(Fit::Differs(path)) => {
                format!(
                    "`{path}` was committed with other content than `{command}` ran on: {again}, then commit"
                )
            }
            // Such a record decides; it is never a miss.
            Why::Unfit(Fit::Fits { .. }) => again.to_owned(),
        }
    }
}

fn foreign_edits(cases: &[Case<'_>]) -> Check {
    const NAME: CheckName = CheckName::ForeignEdits;
    let refused = cases.iter().filter_map(|case| match (&case.decision, &case.miss) {
        (None, Some(Miss { why: Why::Unfit(Fit::Foreign(path)), .. })) => Some(path.clone()),
        _ => None,
    });
    let refused: Vec<RepoPath> = refused.collect();
    if !refused.is_empty() {
        let names = list(&refused);
        return Check::fail(
            NAME,
            format!("others' changes were tested along: {names}; use `mala test --isolated`"),
        );
    }
    let decided: Vec<&Decision> = cases.iter().filter_map(|case| case.decision.as_ref()).collect();
    let mut named: Vec<String> = Vec::new();
    for decision in &decided {
        for path in &decision.foreign {
            let holder =
                decision.evidence.holders.get(path).map_or(String::new(), |holder| format!(" of {holder}"));
            named.push(format!("{path}{holder}"));
        }
    }
    named.sort();
    named.dedup();
    match (named.is_empty(), decided.is_empty()) {
        (_, true) => Check::skipped(NAME, "no command has counted"),
        (true, false) => Check::pass(NAME, "nobody else's changes were tested along"),
        (false, false) => Check::pass(
            NAME,
            format!(
                "tested along with others' changes: {}; `mala test --isolated` leaves them out",
                list(&named)
            ),
        ),
    }
}
