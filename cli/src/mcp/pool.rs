//! What stays between calls, because finding it out costs more than most of what is done with it: open stores, the
//! settings, and the processes above this one.

use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use mala_config::Settings;
use mala_core::{Owner, Scope};
use mala_session::ancestors;
use mala_store::Store;

use crate::error::CliError;

/// As many as calls run at once, usually.
const MOST: usize = 4;
/// Longer than the clock of any file system takes to tick.
const SETTLED: Duration = Duration::from_secs(3);

/// Open stores of one scope that nobody uses at the moment, and who stands above this process.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<(File, Store)>>,
    above: OnceLock<Vec<Owner>>,
    settings: Mutex<Option<(Vec<Stamp>, Settings)>>,
}

/// Which file a store has open. Somebody may have put another one in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct File {
    device: u64,
    inode: u64,
}

impl File {
    fn at(path: &Path) -> io::Result<Self> {
        let data = fs::metadata(path)?;
        Ok(Self { device: data.dev(), inode: data.ino() })
    }
}

impl Pool {
    /// A store of this scope, which comes back when it is dropped.
    pub(crate) fn lend(self: &Arc<Self>, scope: &Scope) -> Result<Lent, CliError> {
        let now = File::at(&scope.state_dir().join("state.db")).ok();
        let idle = self.lock().pop();
        // Whatever does not fit any more is closed.
        if let Some((file, store)) = idle.filter(|(file, _)| Some(*file) == now) {
            return Ok(Lent { store: Some(store), home: Some((Arc::clone(self), file)) });
        }
        let store = Store::open(scope)?;
        let home = File::at(store.path()).ok().map(|file| (Arc::clone(self), file));
        Ok(Lent { store: Some(store), home })
    }

    /// The processes above this one. When one of them ends, so does the client, and all calls with it.
    pub(crate) fn above(&self) -> &[Owner] {
        self.above.get_or_init(ancestors)
    }

    /// The settings that these files say, read anew when one of them has changed. What was read with a warning is not kept:
    /// the next call shall hear it, too.
    pub(crate) fn settings(
        &self,
        files: &[Option<PathBuf>],
        read: impl FnOnce() -> Result<(Settings, bool), CliError>,
    ) -> Result<Settings, CliError> {
        let now: Vec<Stamp> = files.iter().map(|file| Stamp::of(file.as_deref())).collect();
        let mut kept = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((then, settings)) = &*kept
            && *then == now
        {
            return Ok(settings.clone());
        }
        let (settings, is_quiet) = read()?;
        *kept = (is_quiet && now.iter().all(Stamp::is_settled)).then(|| (now, settings.clone()));
        Ok(settings)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(File, Store)>> {
        // Whoever panicked had taken its store out.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a file was when it was looked at; nothing if it was not there.
#[derive(Debug, PartialEq, Eq)]
struct Stamp(Option<(File, u64, SystemTime)>);

impl Stamp {
    fn of(path: Option<&Path>) -> Self {
        let data = path.and_then(|path| fs::metadata(path).ok());
        Self(data.and_then(|data| {
            let file = File { device: data.dev(), inode: data.ino() };
            Some((file, data.len(), data.modified().ok()?))
        }))
    }

    /// False for a file that was written just now: it may be written again without looking any different.
    fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|(_, _, at)| at.elapsed().is_ok_and(|age| age > SETTLED))
    }
}

/// A store to work with.
#[derive(Debug)]
pub(crate) struct Lent {
    store: Option<Store>,
    home: Option<(Arc<Pool>, File)>,
}

impl From<Store> for Lent {
    fn from(store: Store) -> Self {
        Self { store: Some(store), home: None }
    }
}

impl Deref for Lent {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store.as_ref().expect("it is taken only when this is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Store {
        self.store.as_mut().expect("it is taken only when this is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // What was in use during a panic is not used again.
        if let (Some(store), Some((pool, file))) = (self.store.take(), self.home.take())
            && !std::thread::panicking()
        {
            let mut idle = pool.lock();
            if idle.len() < MOST {
                idle.push((file, store));
            }
        }
    }
}
