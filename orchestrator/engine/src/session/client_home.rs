//! Makes the home that a client is started with: all in it is the user's, but the settings.
//!
//! Agents may write in it, so it is new for each process, nothing in it is believed, and nothing that is there is written over.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use mala_agents::launch::home::{BESIDE, DIRECTORY, Home, LASTING, SETTINGS, SettingsError};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum HomeError {
    #[error("the settings in `{}` are no use: {why}; repair the file and try again", path.display())]
    Settings { path: PathBuf, why: SettingsError },
    #[error("`{}` is needed for a home of the client's own", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Makes `home`, which takes the place of the user's one in `users`.
pub(super) fn make(home: &Home, users: &Path) -> Result<(), HomeError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| HomeError::Io { path, source }
    };
    let (theirs, ours) = (users.join(DIRECTORY), home.path.join(DIRECTORY));
    for name in LASTING {
        let path = theirs.join(name);
        fs::create_dir_all(&path).map_err(at(&path))?;
    }
    // The settings may hold secrets.
    DirBuilder::new().mode(0o700).create(&ours).map_err(at(&ours))?;
    for entry in fs::read_dir(&theirs).map_err(at(&theirs))? {
        let entry = entry.map_err(at(&theirs))?;
        if entry.file_name() != SETTINGS {
            let link = ours.join(entry.file_name());
            symlink(entry.path(), &link).map_err(at(&link))?;
        }
    }
    for name in BESIDE {
        let (path, link) = (users.join(name), home.path.join(name));
        if path.exists() {
            symlink(&path, &link).map_err(at(&link))?;
        }
    }
    let (path, file) = (theirs.join(SETTINGS), ours.join(SETTINGS));
    let text = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(at(&path)(error)),
    };
    let settings = home.settings(text.as_deref()).map_err(|why| HomeError::Settings { path, why })?;
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
    new.and_then(|mut new| new.write_all(settings.as_bytes())).map_err(at(&file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use mala_agents::Client;
    use mala_agents::launch::injection;

    use super::*;

    fn home(folder: &Path) -> Home {
        let path = folder.join("new");
        fs::create_dir(&path).unwrap();
        injection(Client::Gemini, "mala", Path::new("/w"), &path).home.unwrap()
    }

    #[test]
    fn all_is_the_users_but_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("ann");
        fs::create_dir_all(users.join(".gemini/commands")).unwrap();
        for (path, text) in
            [(".env", "A=1"), (".gemini/GEMINI.md", "be brief"), (".gemini/settings.json", r#"{"ui":{}}"#)]
        {
            fs::write(users.join(path), text).unwrap();
        }
        let home = home(folder.path());
        make(&home, &users).unwrap();
        let read = |path: &str| fs::read_to_string(home.path.join(path)).unwrap();
        assert_eq!((read(".env"), read(".gemini/GEMINI.md")), ("A=1".to_owned(), "be brief".to_owned()));
        assert!(read(".gemini/settings.json").contains("mala hook gemini --injected"));
        assert!(read(".gemini/settings.json").contains("\"ui\""));
        let mode = |path: &str| fs::metadata(home.path.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(".gemini"), mode(".gemini/settings.json")), (0o700, 0o600));
        fs::write(home.path.join(".gemini/tmp/session"), "x").unwrap();
        assert!(users.join(".gemini/tmp/session").exists(), "conversations outlive the home");
        assert_eq!(fs::read_to_string(users.join(".gemini/settings.json")).unwrap(), r#"{"ui":{}}"#);
    }

    #[test]
    fn settings_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("ann");
        fs::create_dir_all(users.join(".gemini")).unwrap();
        fs::write(users.join(".gemini/settings.json"), "{").unwrap();
        let error = make(&home(folder.path()), &users).unwrap_err().to_string();
        assert!(error.contains("ann/.gemini/settings.json` are no use"), "{error}");
    }
}
