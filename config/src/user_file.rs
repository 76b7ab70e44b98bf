//! Where the settings of a user live, and what is kept for it.

use std::ffi::OsStr;
use std::path::PathBuf;

/// The user file for the given values of `XDG_CONFIG_HOME` and `HOME`.
///
/// As the XDG specification asks, a value that is not an absolute path counts as unset. The file need not exist.
pub fn user_file(xdg_config_home: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    Some(directory(xdg_config_home, home, ".config")?.join("mala/mala.toml"))
}

/// The directory for what mala keeps for a user, for the given values of `XDG_STATE_HOME` and `HOME`.
pub fn user_state_dir(xdg_state_home: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    Some(directory(xdg_state_home, home, ".local/state")?.join("mala"))
}

fn directory(xdg: Option<&OsStr>, home: Option<&OsStr>, below_home: &str) -> Option<PathBuf> {
    let absolute = |value: Option<&OsStr>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(xdg).or_else(|| absolute(home).map(|home| home.join(below_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(xdg: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
        user_file(xdg.map(OsStr::new), home.map(OsStr::new))
    }

    #[test]
    fn prefers_the_xdg_folder() {
        let expected = PathBuf::from("/xdg/mala/mala.toml");
        assert_eq!(resolved(Some("/xdg"), Some("/home/ana")), Some(expected));
    }

    #[test]
    fn falls_back_to_home_when_the_xdg_folder_is_unset_empty_or_relative() {
        for xdg in [None, Some(""), Some("config")] {
            let expected = PathBuf::from("/home/ana/.config/mala/mala.toml");
            assert_eq!(resolved(xdg, Some("/home/ana")), Some(expected), "{xdg:?}");
        }
    }

    #[test]
    fn is_nowhere_without_a_home() {
        assert_eq!(resolved(None, None), None);
        assert_eq!(resolved(None, Some("")), None);
    }
}
