//! A view that stays in place: one line per agent, what is over scrolls away above.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use mala_core::{IssueId, Timestamp};
use mala_engine::{Event, Reporter};

use super::{words, write_summary};
use crate::ui::{Ui, plain};

/// How often the bottom line is made anew.
const PULSE: Duration = Duration::from_secs(1);

/// Tells, in a line, who holds and who waits.
pub(crate) type Pulse = Box<dyn FnMut() -> Option<String> + Send>;

pub(crate) struct Live {
    ui: Ui,
    screen: MultiProgress,
    bars: HashMap<IssueId, ProgressBar>,
    bottom: ProgressBar,
    pulse: Pulse,
    last_pulse: Option<Instant>,
    done: usize,
    handed_over: usize,
    costs: HashMap<IssueId, f64>,
    /// Those whose cost is not known now.
    unpriced: HashSet<IssueId>,
}

impl Live {
    pub(crate) fn new(ui: &Ui, pulse: Pulse) -> Self {
        let screen = MultiProgress::new();
        let bottom = screen.add(ProgressBar::new_spinner());
        bottom.set_style(style("{elapsed_precise} {wide_msg}"));
        Self {
            ui: ui.clone(),
            screen,
            bars: HashMap::new(),
            bottom,
            pulse,
            last_pulse: None,
            done: 0,
            handed_over: 0,
            costs: HashMap::new(),
            unpriced: HashSet::new(),
        }
    }

    /// False on a terminal that cannot move its cursor, and where stderr is none: there nothing would be drawn.
    pub(crate) fn is_possible() -> bool {
        !MultiProgress::new().is_hidden()
    }

    fn bar(&mut self, issue: &IssueId) -> &ProgressBar {
        let screen = &self.screen;
        let bottom = &self.bottom;
        self.bars.entry(issue.clone()).or_insert_with(|| {
            let bar = screen.insert_before(bottom, ProgressBar::new_spinner());
            bar.set_style(style("{spinner} {prefix:.bold} {wide_msg} {elapsed:>4}"));
            bar.set_prefix(issue.to_string());
            bar
        })
    }

    fn say(&mut self, issue: &IssueId, what: &str) {
        self.bar(issue).set_message(plain(what));
    }

    fn remove(&mut self, issue: &IssueId) {
        if let Some(bar) = self.bars.remove(issue) {
            bar.finish_and_clear();
        }
    }

    fn follow(&mut self, event: &Event) {
        match event {
            Event::RunStarted { .. } => {
                self.bottom.disable_steady_tick();
                self.bottom.reset_elapsed();
            }
            Event::Claimed { issue, .. } => self.say(issue, "starting"),
            Event::Doing { issue, what, .. } => self.say(issue, what),
            Event::Gating { issue, .. } => self.say(issue, "at the gate"),
            Event::Queued { issue, entry, .. } => {
                self.say(issue, &format!("in the landing queue (entry {entry})"));
            }
            Event::Held { issue: Some(issue), why, .. } => self.say(issue, &format!("not landed yet: {why}")),
            Event::Rejected { issue, .. } => self.say(issue, "told what is missing"),
            Event::Parked { issue, awaits, issues, .. } => {
                self.say(issue, &format!("waits for {}", words::awaited(awaits, issues)));
            }
            Event::Yielded { issue, .. } => {
                self.say(issue, "its work is put aside, so that others can go on");
            }
            Event::Paused { issue, until, .. } => self.say(issue, &format!("pauses until {until}")),
            Event::NeedsInput { issue, question, .. } => self.say(issue, &format!("needs input: {question}")),
            Event::Answered { issue, .. } => self.say(issue, "goes on"),
            Event::Nudged { issue, .. } => self.say(issue, "told to go on"),
            Event::Used { issue, cost: Some(cost), .. } => {
                self.costs.insert(issue.clone(), *cost);
                self.unpriced.remove(issue);
            }
            Event::Used { issue, tokens: 1.., .. } => {
                self.unpriced.insert(issue.clone());
            }
            Event::Done { issue, .. } => {
                self.done += 1;
                self.remove(issue);
            }
            Event::HandedOver { issue, .. } => {
                self.handed_over += 1;
                self.remove(issue);
            }
            Event::PutBack { issue, .. } => self.remove(issue),
            Event::RunEnded { .. } => self.bottom.finish_and_clear(),
            _ => {}
        }
    }
}

impl Reporter for Live {
    fn report(&mut self, _at: Timestamp, event: &Event) {
        if let Event::Validating { commit, command } = event {
            // Nobody calls for redrawing before the run has begun.
            self.bottom.set_message(format!(
                "validating the branch at {}: `{}`",
                commit.short(),
                plain(command)
            ));
            self.bottom.reset_elapsed();
            self.bottom.enable_steady_tick(PULSE);
            return;
        }
        for line in words::lines(event) {
            // The screen is stderr's, so a closed one is not ours to mend.
            let _ = self.screen.println(line);
        }
        self.follow(event);
        if matches!(event, Event::NeedsInput { .. }) {
            // A bell for whoever looks elsewhere. It moves nothing on the screen.
            let _ = self.ui.err().write_all(b"\x07");
        }
        if let Event::RunEnded { summary } = event {
            let _ = write_summary(&mut *self.ui.out(), summary);
        }
    }

    fn tick(&mut self) {
        self.bars.values().for_each(ProgressBar::tick);
        if self.last_pulse.is_some_and(|last| last.elapsed() < PULSE) {
            return;
        }
        self.last_pulse = Some(Instant::now());
        let cost: f64 = self.costs.values().sum();
        let cost = match (cost > 0.0, self.unpriced.is_empty()) {
            (true, true) => format!(", ${cost:.2}"),
            (true, false) => format!(", ${cost:.2} and more"),
            (false, true) => String::new(),
            (false, false) => ", cost unknown".to_owned(),
        };
        let pulse = (self.pulse)().map(|pulse| format!("; {pulse}")).unwrap_or_default();
        self.bottom.set_message(format!(
            "{} at work, {} done, {} handed over{cost}{pulse}",
            self.bars.len(),
            self.done,
            self.handed_over
        ));
        self.bottom.tick();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
