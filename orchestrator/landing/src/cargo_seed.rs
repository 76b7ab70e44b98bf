//! Packages that the user's cargo has downloaded, copied to the home of a slot's cargo, so that nothing is downloaded twice.
//!
//! Copied and not linked: whatever a build does with them stays in the slot.

use std::fs;
use std::path::{Path, PathBuf};
use std::{env, io};

use toml::de::DeTable;

/// Copies cargo's settings and the packages that `Cargo.lock` names from the user's cargo home to the slot's.
pub(crate) fn seed(tree: &Path, to: &Path) -> io::Result<()> {
    let Ok(lock) = fs::read_to_string(tree.join("Cargo.lock")) else { return Ok(()) };
    let Some(from) = cargo_home().filter(|from| from.is_dir()) else { return Ok(()) };
    fs::create_dir_all(to)?;
    for name in ["config.toml", "config", "credentials.toml"] {
        if from.join(name).is_file() {
            fs::copy(from.join(name), to.join(name))?;
        }
    }
    let packages = packages(&lock);
    for registry in names_in(&from.join("registry/index")) {
        let index = Path::new("registry/index").join(&registry);
        copy_missing(&from.join(&index).join("config.json"), &to.join(&index).join("config.json"))?;
        for (name, version) in &packages {
            let entry = index.join(".cache").join(index_path(name));
            copy_missing(&from.join(&entry), &to.join(&entry))?;
            let archive = Path::new("registry/cache").join(&registry).join(format!("{name}-{version}.crate"));
            copy_missing(&from.join(&archive), &to.join(&archive))?;
        }
    }
    Ok(())
}

fn cargo_home() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CARGO_HOME").or_else(|| set("HOME").map(|home| home.join(".cargo")))
}

fn names_in(dir: &Path) -> Vec<std::ffi::OsString> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// Names and versions of the packages that come from a registry.
fn packages(lock: &str) -> Vec<(String, String)> {
    let Ok(lock) = DeTable::parse(lock) else { return Vec::new() };
    let packages =
        lock.get_ref().get("package").and_then(|list| list.get_ref().as_array()).into_iter().flatten();
    let text = |package: &DeTable<'_>, name: &str| Some(package.get(name)?.get_ref().as_str()?.to_owned());
    packages
        .filter_map(|package| package.get_ref().as_table())
        .filter(|package| text(package, "source").is_some_and(|source| source.contains("registry")))
        .filter_map(|package| Some((text(package, "name")?, text(package, "version")?)))
        .collect()
}

/// Where a registry's index has a package: <https://doc.rust-lang.org/cargo/reference/registry-index.html#index-files>.
fn index_path(name: &str) -> PathBuf {
    let name = name.to_lowercase();
    match name.len() {
        1 | 2 => [name.len().to_string(), name].iter().collect(),
        3 => ["3", &name[..1], &name].iter().collect(),
        _ => [&name[..2], &name[2..4], &name].iter().collect(),
    }
}

fn copy_missing(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_file() || to.exists() {
        return Ok(());
    }
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    // By another name first: a copy that is cut off must not be taken for the file.
    let beside = to.with_extension("part");
    let _ = fs::remove_file(&beside);
    reflink_copy::reflink_or_copy(from, &beside)?;
    fs::rename(&beside, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_registry_are_found_where_cargo_has_them() {
        let lock = "[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"Serde\"\n\
                    version = \"1.0.2\"\nsource = \"registry+https://example.invalid/index\"\n";
        assert_eq!(packages(lock), [("Serde".to_owned(), "1.0.2".to_owned())]);
        assert_eq!(index_path("Serde"), Path::new("se/rd/serde"));
        assert_eq!(index_path("log"), Path::new("3/l/log"));
        assert_eq!(index_path("cc"), Path::new("2/cc"));
        assert!(packages("no toml [").is_empty());
    }
}
