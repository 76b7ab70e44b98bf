//! The environment of commands in a slot: mala's own, turned away from the checkout and from the user's home.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::slots::{SlotsError, at};

/// Variables that would decide a result from outside of the tree.
const DROPPED: &[&str] = &[
    "CARGO_BUILD_BUILD_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_TARGET_DIR",
    "LD_AUDIT",
    "LD_PRELOAD",
    "OLDPWD",
    "PWD",
    "PYTHONPYCACHEPREFIX",
];
const DROPPED_PREFIXES: &[&str] = &["GIT_", "MALA_"];

/// Version managers and toolchains find their installations below the home directory unless told otherwise. They are read from
/// where the user has them.
const INSTALLATIONS: &[(&str, &str)] = &[
    ("ASDF_DATA_DIR", ".asdf"),
    ("BUN_INSTALL", ".bun"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("NVM_DIR", ".nvm"),
    ("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("RUSTUP_HOME", ".rustup"),
    ("SDKMAN_DIR", ".sdkman"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    ("VOLTA_HOME", ".volta"),
];

/// Directories of a slot that stand for the user's own.
#[derive(Debug, Clone)]
pub(crate) struct Homes {
    home: PathBuf,
    temporary: PathBuf,
}

impl Homes {
    pub(crate) fn make(dir: &Path) -> Result<Self, SlotsError> {
        let homes = Self { home: dir.join("home"), temporary: dir.join("tmp") };
        // What an earlier command left there is nobody's.
        match fs::remove_dir_all(&homes.temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(at(&homes.temporary)(error));
            }
            _ => {}
        }
        for path in [&homes.home, &homes.temporary] {
            fs::create_dir_all(path).map_err(at(path))?;
        }
        Ok(homes)
    }

    pub(crate) fn cargo(&self) -> PathBuf {
        self.home.join(".cargo")
    }

    /// What is set, whatever mala itself was started with.
    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let home = |name: &str| self.home.join(name).into_os_string();
        vec![
            ("HOME", self.home.clone().into()),
            ("TMPDIR", self.temporary.clone().into()),
            ("XDG_CACHE_HOME", home(".cache")),
            ("XDG_CONFIG_HOME", home(".config")),
            ("XDG_DATA_HOME", home(".local/share")),
            ("XDG_STATE_HOME", home(".local/state")),
            ("CARGO_HOME", self.cargo().into()),
            ("GOCACHE", home(".cache/go-build")),
            ("GOMODCACHE", home("go/pkg/mod")),
            ("GOPATH", home("go")),
            ("GRADLE_USER_HOME", home(".gradle")),
            ("PIP_CACHE_DIR", home(".cache/pip")),
            ("UV_CACHE_DIR", home(".cache/uv")),
            // A file that is linked instead would be changed for everybody.
            ("UV_LINK_MODE", "copy".into()),
            ("npm_config_cache", home(".npm")),
        ]
    }
}

/// The variables for a command in the slot at `slot`, which stands for the checkout at `checkout`: mala's own, and over them
/// those that are given to this slot.
pub(crate) fn variables(
    own: impl Iterator<Item = (OsString, OsString)>,
    given: &[(String, String)],
    checkout: &Path,
    slot: &Path,
    homes: &Homes,
) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = own
        .filter(|(name, _)| !is_dropped(name))
        .map(|(name, value)| (name, moved(&value, checkout, slot)))
        .collect();
    let user = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let mut set = |name: &str, value: OsString| {
        variables.retain(|(other, _)| other != name);
        variables.push((name.into(), value));
    };
    for (name, value) in given {
        set(name, value.into());
    }
    if let Some(user) = &user {
        for (name, path) in INSTALLATIONS {
            let place = user.join(path);
            if env::var_os(name).is_none() && place.is_dir() {
                set(name, place.into());
            }
        }
        // Who commits, for tests that do.
        let settings = user.join(".gitconfig");
        if settings.is_file() {
            set("GIT_CONFIG_GLOBAL", settings.into());
        }
    }
    // What a setup has installed is found without being activated.
    let installed = [".venv/bin", "node_modules/.bin"]
        .map(|path| slot.join(path))
        .into_iter()
        .filter(|path| path.is_dir());
    let path =
        variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone()).unwrap_or_default();
    let path = env::join_paths(installed.chain(env::split_paths(&path)));
    let mut set = |name: &str, value: OsString| {
        variables.retain(|(other, _)| other != name);
        variables.push((name.into(), value));
    };
    if let Ok(path) = path {
        set("PATH", path);
    }
    for (name, value) in homes.variables() {
        set(name, value);
    }
    variables
}

fn is_dropped(name: &OsStr) -> bool {
    let is_prefixed = |prefix: &&str| name.as_bytes().starts_with(prefix.as_bytes());
    DROPPED.iter().any(|dropped| name == *dropped) || DROPPED_PREFIXES.iter().any(is_prefixed)
}

/// The value with every path into the checkout turned into the same path in the slot: an activated `.venv`, a `bin` in `PATH`.
fn moved(value: &OsStr, checkout: &Path, slot: &Path) -> OsString {
    if !contains(value.as_bytes(), checkout.as_os_str().as_bytes()) {
        return value.to_owned();
    }
    let parts = value.as_bytes().split(|byte| *byte == b':').map(|part| {
        let path = Path::new(OsStr::from_bytes(part));
        match path.strip_prefix(checkout) {
            Ok(inside) if inside.as_os_str().is_empty() => slot.as_os_str().as_bytes().to_vec(),
            Ok(inside) => slot.join(inside).into_os_string().into_vec(),
            Err(_) => part.to_vec(),
        }
    });
    OsString::from_vec(parts.collect::<Vec<_>>().join(&b':'))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_checkout_or_of_the_agent_is_left_in_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let homes = Homes::make(dir.path()).unwrap();
        let own = [
            ("PATH", "/home/me/repo/.venv/bin:/usr/bin:/home/me/repository/bin:/home/me/repo"),
            ("VIRTUAL_ENV", "/home/me/repo/.venv"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("CARGO_TARGET_DIR", "/shared"),
            ("MALA_AGENT", "a"),
            ("GIT_DIR", "/home/me/repo/.git"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("HOME", "/home/user"),
        ];
        let own = own.into_iter().map(|(name, value)| (name.into(), value.into()));
        let given = [("DATABASE_URL", "postgres:///app_v1"), ("MALA_SLOT", "v1"), ("LANG", "de_DE.UTF-8")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = variables(own, &given, Path::new("/home/me/repo"), Path::new("/slot/tree"), &homes);
        let get = |name: &str| {
            found
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value.to_string_lossy().into_owned())
        };
        assert_eq!(get("PATH").unwrap(), "/slot/tree/.venv/bin:/usr/bin:/home/me/repository/bin:/slot/tree");
        assert_eq!(get("VIRTUAL_ENV").unwrap(), "/slot/tree/.venv");
        assert_eq!(get("TERM").unwrap(), "dumb");
        let own_share = ["DATABASE_URL", "MALA_SLOT", "LANG"].map(|name| get(name).unwrap());
        assert_eq!(own_share, ["postgres:///app_v1", "v1", "de_DE.UTF-8"]);
        for name in ["LD_PRELOAD", "CARGO_TARGET_DIR", "MALA_AGENT", "GIT_DIR"] {
            assert_eq!(get(name), None, "{name}");
        }
        assert_eq!(get("HOME").unwrap(), dir.path().join("home").to_string_lossy());
    }
}
