//! Plain lines, for files, pipes and people who like them.

use mala_core::Timestamp;
use mala_engine::{Event, Reporter};

use super::{put, words, write_summary};
use crate::ui::Ui;

#[derive(Debug)]
pub(crate) struct Plain(pub(crate) Ui);

impl Reporter for Plain {
    fn report(&mut self, _at: Timestamp, event: &Event) {
        // Warnings are remarks; what happens is the answer.
        let mut out = if matches!(event, Event::Warning { .. }) { self.0.err() } else { self.0.out() };
        for line in words::lines(event) {
            put(&mut *out, &line);
        }
        if let Event::RunEnded { summary } = event {
            let _ = write_summary(&mut *out, summary);
        }
    }
}
