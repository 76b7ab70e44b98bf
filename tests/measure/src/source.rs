//! The crates of a checkout and their files, without tests.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use crate::syntax::{self, Syntax};

pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) files: Vec<SourceFile>,
}

/// A file, without what is only built for tests.
pub(crate) struct SourceFile {
    pub(crate) lines: usize,
    /// Lines that are neither blank nor only a comment or docs.
    pub(crate) code: usize,
    /// Lines with a comment that is no doc, alone or behind code.
    pub(crate) comments: usize,
    pub(crate) syntax: Syntax,
}

/// By their names. A crate without any code but tests is left out.
pub(crate) fn crates(root: &Path) -> Result<Vec<Crate>, Box<dyn Error>> {
    let mut sources = BTreeMap::new();
    collect(root, None, &mut sources)?;
    if sources.is_empty() {
        return Err(format!("there are no crates in `{}`", root.display()).into());
    }
    sources.into_iter().map(|(name, paths)| Ok(Crate { name, files: read(&paths)? })).collect()
}

/// Finds the sources below `directory`, which lies in the crate `around`.
fn collect(
    directory: &Path,
    around: Option<&str>,
    sources: &mut BTreeMap<String, Vec<PathBuf>>,
) -> Result<(), Box<dyn Error>> {
    let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
    let around = package(&manifest).or(around);
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && !matches!(&*name, "target" | "tests" | "benches" | "node_modules") {
                collect(&path, around, sources)?;
            }
        } else if let Some(around) = around
            && name.ends_with(".rs")
            && name != "tests.rs"
        {
            sources.entry(around.to_owned()).or_default().push(path);
        }
    }
    Ok(())
}

/// The name of the package that a manifest describes; none for a workspace.
fn package(manifest: &str) -> Option<&str> {
    let section =
        manifest.split("\n[").find_map(|section| section.trim_start_matches('[').strip_prefix("package]"))?;
    let name = section.lines().find_map(|line| line.strip_prefix("name")?.trim_start().strip_prefix('='))?;
    Some(name.trim().trim_matches('"'))
}

fn read(paths: &[PathBuf]) -> Result<Vec<SourceFile>, Box<dyn Error>> {
    let mut files = Vec::new();
    let mut for_tests = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path)?;
        let syntax = syntax::of(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        for_tests.extend(syntax.test_modules.iter().flat_map(|name| module_files(path, name)));
        files.push((path, text, syntax));
    }
    files.retain(|(path, ..)| !for_tests.contains(path));
    let measured = files.into_iter().map(|(_, text, syntax)| {
        let is_counted = |line: &usize| !syntax.test_lines.iter().any(|range| range.contains(line));
        let is_code = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let lines = || text.lines().zip(1..).filter(|(_, number)| is_counted(number));
        SourceFile {
            lines: lines().count(),
            code: lines().filter(|(line, _)| is_code(line)).count(),
            comments: syntax.comment_lines.iter().filter(|line| is_counted(line)).count(),
            syntax,
        }
    });
    Ok(measured.filter(|file| file.lines > 0).collect())
}

/// Where `mod name;` in the file `path` may lead.
fn module_files(path: &Path, name: &str) -> [PathBuf; 2] {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| path.ends_with(root));
    let directory = if is_root { path.with_file_name("") } else { path.with_extension("") };
    [directory.join(format!("{name}.rs")), directory.join(name).join("mod.rs")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_have_names_and_workspaces_have_none() {
        assert_eq!(package("[package]\nname = \"mala\"\n[lib]\nname = \"x\"\n"), Some("mala"));
        assert_eq!(package("# about\n\n[package]\nversion = \"1\"\nname=\"mala-x\"\n"), Some("mala-x"));
        assert_eq!(package("[workspace]\nmembers = [\"cli\"]\n[workspace.package]\nname = \"x\"\n"), None);
    }

    #[test]
    fn modules_lie_below_the_file_that_names_them() {
        let files = |path: &str| module_files(Path::new(path), "m").map(|file| file.display().to_string());
        assert_eq!(files("src/lib.rs"), ["src/m.rs", "src/m/mod.rs"]);
        assert_eq!(files("src/a/mod.rs"), ["src/a/m.rs", "src/a/m/mod.rs"]);
        assert_eq!(files("src/a.rs"), ["src/a/m.rs", "src/a/m/mod.rs"]);
    }
}
