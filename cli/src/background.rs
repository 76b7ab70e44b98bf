//! Tasks beside a command, whose warnings go where the command talks.

use mala_session::background::{Background, Task};

use crate::ui::Ui;

/// Starts them. Without a thread the command goes on, and says so.
pub(crate) fn start(tasks: Vec<Task>, ui: &Ui) -> Background {
    let inner = ui.clone();
    let (background, started) = Background::start(tasks, Box::new(move |text| inner.warning(text)));
    if let Err(error) = started {
        ui.warning(&format!("nothing is tidied up meanwhile: cannot start a thread: {error}"));
    }
    background
}
