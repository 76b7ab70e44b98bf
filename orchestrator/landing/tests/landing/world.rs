//! A repository, and slots beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mala_config::{Override, Settings, Sources};
use mala_core::Scope;
use mala_gate::runner::Tee;
use mala_git::{Oid, Repo};
use mala_landing::{Pool, Requirements, Slots, Validate, Validation, ValidationError};

pub(crate) struct World {
    /// What is removed with it.
    _dir: Option<tempfile::TempDir>,
    base: PathBuf,
    pub(crate) root: PathBuf,
    settings: Vec<(&'static str, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = Self::at(&dir.path().canonicalize().unwrap());
        let world = Self { _dir: Some(dir), ..world };
        fs::create_dir(&world.root).unwrap();
        world.git(&["init", "-q", "-b", "main"]);
        world
    }

    /// A world that another process has made.
    pub(crate) fn at(base: &Path) -> Self {
        let slots = ("queue.directory", base.join("cache").to_string_lossy().into_owned());
        Self { _dir: None, base: base.to_owned(), root: base.join("repo"), settings: vec![slots] }
    }

    /// With one required command.
    pub(crate) fn requiring(command: &str) -> Self {
        Self::new().with("validate.commands", command)
    }

    pub(crate) fn with(mut self, key: &'static str, value: &str) -> Self {
        self.settings.push((key, value.to_owned()));
        self
    }

    /// A place beside the repository.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
        let out = Command::new("git").current_dir(&self.root).args(identity).args(args).output().unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> &Self {
        let place = self.root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
        self
    }

    pub(crate) fn commit(&self) -> Oid {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "a commit"]);
        Oid::parse(&self.git(&["rev-parse", "HEAD"])).unwrap()
    }

    pub(crate) fn repo(&self) -> Repo {
        Repo::new(Scope::discover(&self.root).unwrap())
    }

    pub(crate) fn settings(&self) -> Settings {
        let overrides = self.settings.iter().map(|(key, value)| Override {
            key: (*key).to_owned(),
            value: value.clone(),
            typed: String::new(),
        });
        let sources =
            Sources { user_file: None, repo_file: None, env: Vec::new(), overrides: overrides.collect() };
        Settings::load(&sources).unwrap().settings
    }

    pub(crate) fn slots(&self) -> Slots {
        Slots::of(&self.repo(), &self.settings()).unwrap()
    }

    pub(crate) fn try_validate(&self, commit: &Oid) -> Result<(Validation, String), ValidationError> {
        let (repo, slots) = (self.repo(), self.slots());
        let requirements = &Requirements::of(&self.settings());
        let validate =
            Validate { repo: &repo, slots: &slots, pool: Pool::Validation, requirements, asker: None };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let validation = validate.commit(commit, &mut Tee { out: &mut out, err: &mut err })?;
        out.extend(err);
        Ok((validation, String::from_utf8_lossy(&out).into_owned()))
    }

    pub(crate) fn validate(&self, commit: &Oid) -> Validation {
        self.try_validate(commit).unwrap().0
    }

    pub(crate) fn has_passed(&self, commit: &Oid) -> bool {
        self.validate(commit).has_passed()
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
