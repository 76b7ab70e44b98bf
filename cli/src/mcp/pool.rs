//! What stays between calls, because finding it out costs more than most of what is done with it: open stores, and the
//! processes above this one.

use std::fs;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mala_core::{Owner, Scope};
use mala_store::Store;

use crate::context::above;
use crate::error::CliError;

/// As many as calls run at once, usually.
const MOST: usize = 4;

/// Open stores of one scope that nobody uses at the moment, and who stands above this process.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<(File, Store)>>,
    above: OnceLock<Vec<Owner>>,
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
        self.above.get_or_init(above)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(File, Store)>> {
        // Whoever panicked had taken its store out.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
