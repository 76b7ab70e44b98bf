//! Paths as the store knows them, and what is asked for when one of them is changed.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mala_core::claim::Reading;
use mala_core::{Key, LockGroups, Mode, Pattern, Scope, Target, Want};

pub(crate) fn key(path: &Path) -> Key {
    Key::from_stored(path.as_os_str().as_bytes().to_vec())
}

pub(crate) fn want_of(key: &Key) -> Want {
    Want { target: Target::File(key.clone()), aliases: Vec::new(), mode: Mode::Exclusive }
}

/// A file, or a folder with everything below it. If that cannot be said, with everything in the nearest folder around it of
/// which it can.
pub(crate) fn wants_of(key: &Key, is_folder: bool) -> Vec<Want> {
    let mut wants = vec![want_of(key)];
    if is_folder {
        let around = key.as_path().ancestors().map(|folder| folder.as_os_str().as_bytes());
        let pattern = around.into_iter().find_map(all_in);
        wants.extend(pattern.map(|pattern| Want { target: Target::Pattern(pattern), ..want_of(key) }));
    }
    wants
}

/// The same wants, and with each file that is to be changed the others of its lock groups.
pub fn with_groups(scope: &Scope, groups: &LockGroups, mut wants: Vec<Want>) -> Vec<Want> {
    let changed = wants.iter().filter(|want| want.mode == Mode::Exclusive);
    let paths: Vec<_> =
        changed.filter_map(|want| want.target.file()).flat_map(|key| groups.beside(key)).collect();
    for path in paths {
        // What cannot be named, such as a symlink out of the checkout, cannot be changed either.
        let beside = scope.want(scope.root(), path.as_os_str(), Mode::Exclusive, Reading::Literal);
        wants.extend(beside.ok().filter(|want| wants.iter().all(|known| known.target != want.target)));
    }
    wants
}

/// Everything in a folder; none if the path is too long for a pattern.
pub(crate) fn all_in(folder: &[u8]) -> Option<Pattern> {
    let text = match folder {
        b"" => b"**".to_vec(),
        folder => [Pattern::literal(folder).text(), b"/**"].concat(),
    };
    Pattern::parse(&text).ok()
}
