//! Saved outputs: where they lie, and whether they are still what the commands printed.
//!
//! A record holds the hash of its output, and the chain vouches for the record. An output may be missing if it was removed for
//! its age, which leaves a note of how far back outputs are kept.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Seek};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use mala_core::file::{SETTINGS, open_regular, read_small_text};
use mala_core::{EvidenceId, Scope, Timestamp};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::log::{EvidenceLog, Of, folder};
use super::record::Evidence;
use super::recording::EvidenceError;

/// What has become of the output of a command.
#[derive(Debug)]
pub enum Output {
    /// It went where nothing could be saved, as to a terminal.
    NotSaved,
    /// As it was printed.
    Whole(File),
    /// Removed for its age.
    Forgotten,
    Damaged(Damage),
    /// Only its owner may read it.
    Private(PathBuf),
}

/// A saved output that cannot be relied on. The record itself can.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Damage {
    #[error("the saved output of `{id}` is not what the command printed: `{}` was changed", .file.display())]
    Changed { id: EvidenceId, file: PathBuf },
    #[error("the saved output of `{id}` is gone, and `mala clean` has not removed it: `{}`", .file.display())]
    Missing { id: EvidenceId, file: PathBuf },
}

impl Damage {
    pub fn file(&self) -> &Path {
        match self {
            Self::Changed { file, .. } | Self::Missing { file, .. } => file,
        }
    }
}

/// The output of one command.
pub fn output(scope: &Scope, evidence: &Evidence) -> Result<Output, EvidenceError> {
    let Some(sum) = &evidence.output_sha256 else { return Ok(Output::NotSaved) };
    let id = evidence.id.clone();
    // By its name, not by the path that it had: checkouts are moved.
    let file = file_of(&folder_of(scope), &id);
    let found = match open_regular(&file) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_old = kept_since(scope)?.is_some_and(|since| evidence.started_at < since);
            return Ok(if is_old {
                Output::Forgotten
            } else {
                Output::Damaged(Damage::Missing { id, file })
            });
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Output::Private(file)),
        Err(error) => return Err(failed(&file)(error)),
    };
    if sha256(&found).map_err(failed(&file))? != *sum {
        return Ok(Output::Damaged(Damage::Changed { id, file }));
    }
    (&found).rewind().map_err(failed(&file))?;
    Ok(Output::Whole(found))
}

/// What was found out about saved outputs.
#[derive(Debug, Default)]
pub struct Looked {
    /// Those that cannot be relied on, in the order of their records.
    pub damaged: Vec<Damage>,
    /// How many records were looked at.
    pub records: u64,
    /// True if older ones were not.
    pub is_cut_short: bool,
}

/// What opening one output counts as, in bytes that are read.
const OPENING: u64 = 64 << 10;

/// Looks at the newest outputs, until about so many bytes are read.
pub fn look(scope: &Scope, most: u64) -> Result<Looked, EvidenceError> {
    let (mut looked, mut read) = (Looked::default(), 0_u64);
    EvidenceLog::of(scope).sift(Of::Anyone { word: "" }, |sighting| {
        if read >= most {
            looked.is_cut_short = true;
            return Ok::<_, EvidenceError>(ControlFlow::Break(()));
        }
        looked.records += 1;
        read += OPENING;
        match output(scope, &sighting.evidence()?)? {
            Output::Damaged(damage) => looked.damaged.push(damage),
            Output::Whole(file) => read += file.metadata().map_or(0, |file| file.len()),
            Output::NotSaved | Output::Forgotten | Output::Private(_) => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    looked.damaged.reverse();
    Ok(looked)
}

/// The hash of a whole file, in hexadecimal digits.
pub fn sha256(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    let mut reader = BufReader::new(file);
    let mut hash = Sha256::new();
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        let count = bytes.len();
        hash.update(bytes);
        reader.consume(count);
    }
}

/// Where the outputs of all commands are saved.
pub(super) fn folder_of(scope: &Scope) -> PathBuf {
    folder(scope).join("output")
}

pub(super) fn file_of(folder: &Path, id: &EvidenceId) -> PathBuf {
    folder.join(format!("{id}.log"))
}

/// Where it is noted since when outputs are kept.
fn note(scope: &Scope) -> PathBuf {
    folder(scope).join("outputs-since")
}

fn kept_since(scope: &Scope) -> Result<Option<Timestamp>, EvidenceError> {
    let note = note(scope);
    match read_small_text(&note, SETTINGS) {
        Ok(text) => Ok(mala_core::issue::parse_moment(text.trim_end())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&note)(error)),
    }
}

/// Outputs from before `since` are about to be removed.
pub(super) fn keep_since(scope: &Scope, since: Timestamp) -> Result<(), EvidenceError> {
    if kept_since(scope)?.is_some_and(|noted| noted >= since) {
        return Ok(());
    }
    let note = note(scope);
    let beside = note.with_extension("new");
    let written = fs::write(&beside, format!("{since}\n")).and_then(|()| fs::rename(&beside, &note));
    written.map_err(failed(&note))
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> EvidenceError {
    let path = path.to_owned();
    move |source| EvidenceError::Output { path, source }
}
