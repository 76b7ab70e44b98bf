//! What is worked off, and the truth that it is held against.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Files that many issues touch.
const HOT_FILES: u32 = 2;
/// Of so many issues, two exclude each other until one of them is mended.
const PAIR_EVERY: u32 = 6;

/// How long tests take, and what they do meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tests {
    /// They wait, as tests that talk to a service do.
    Waiting(Duration),
    /// They keep a core busy for about so long.
    Busy(Duration),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) issues: u32,
    pub(crate) agents: usize,
    /// The share of issues that touch a hot file.
    pub(crate) hot_percent: u32,
    pub(crate) think: Duration,
    pub(crate) tests: Tests,
    /// Some issues are green alone and red together.
    pub(crate) interacting: bool,
}

/// What one way of working has come to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) per_minute: f64,
    /// How often an agent had to do something again.
    pub(crate) sent_back: u32,
    /// Agent-seconds spent waiting for others.
    pub(crate) waited: Duration,
    /// Commits that the branch was at and that fail.
    pub(crate) red_tips: u32,
    /// Issues that are not in the branch exactly once.
    pub(crate) lost: u32,
}

impl Workload {
    /// Landed in a minute by one agent that waits for nobody.
    pub(crate) fn alone(&self) -> f64 {
        60.0 / (self.think + self.test_time()).as_secs_f64()
    }

    pub(crate) fn test_time(&self) -> Duration {
        match self.tests {
            Tests::Waiting(time) | Tests::Busy(time) => time,
        }
    }

    /// The file that an issue changes, and whether that is a hot one.
    pub(crate) fn file(&self, issue: u32) -> (String, bool) {
        // Spread evenly, so that every prefix of the list has about the same share.
        let is_hot = (issue * self.hot_percent) / 100 != ((issue + 1) * self.hot_percent) / 100;
        if is_hot {
            (format!("hot-{}.txt", issue % HOT_FILES), true)
        } else {
            (format!("file-{issue}.txt"), false)
        }
    }

    /// The number of the pair of issues that exclude each other.
    pub(crate) fn pair(&self, issue: u32) -> Option<u32> {
        (self.interacting && issue % PAIR_EVERY < 2).then_some(issue / PAIR_EVERY)
    }

    /// Writes what the issue asks for; `mend` makes it go together with its counterpart.
    pub(crate) fn write(&self, root: &Path, issue: u32, mend: bool) {
        let path = root.join(self.file(issue).0);
        let mut text = fs::read_to_string(&path).unwrap_or_default();
        if !text.lines().any(|line| line == issue.to_string()) {
            writeln!(text, "{issue}").unwrap();
            fs::write(&path, text).unwrap();
        }
        if let Some(pair) = self.pair(issue) {
            fs::write(root.join(format!("part-{issue}.pair-{pair}")), "x\n").unwrap();
            if mend {
                fs::write(root.join(format!("mended-{pair}")), "x\n").unwrap();
            }
        }
    }

    /// The test: it fails if two parts of a pair are there and nobody has mended them.
    fn script(&self) -> String {
        let work = match self.tests {
            Tests::Waiting(time) => format!("sleep {}", time.as_secs_f64()),
            // About so many rounds of a shell's loop in a millisecond.
            Tests::Busy(time) => {
                format!("i=0; while [ $i -lt {} ]; do i=$((i+1)); done", time.as_millis() * 700)
            }
        };
        format!(
            "[ -n \"$AT_ONCE\" ] || {{ {work}; }}\nfor pair in $(seq 0 {}); do\n    set -- part-*.pair-$pair\n    \
             if [ $# -gt 1 ] && ! [ -e mended-$pair ]; then echo \"$* exclude each other\"; exit 1; fi\ndone\n",
            self.issues / PAIR_EVERY
        )
    }

    /// A repository with the test and the hot files.
    pub(crate) fn repository(&self, root: &Path) {
        fs::create_dir_all(root).unwrap();
        fs::write(root.join("check.sh"), self.script()).unwrap();
        for number in 0..HOT_FILES {
            fs::write(root.join(format!("hot-{number}.txt")), "begin\n").unwrap();
        }
        for args in [
            "init -q -b main",
            "config user.name b",
            "config user.email b@example.invalid",
            "add .",
            "commit -qm start",
        ] {
            assert!(git(root, &args.split(' ').collect::<Vec<_>>()).is_some());
        }
    }

    /// Runs the test in a checkout.
    pub(crate) fn test(root: &Path) -> bool {
        Command::new("sh").arg("check.sh").current_dir(root).output().unwrap().status.success()
    }

    /// Holds the branch against the truth: how many commits that it was at fail, and how many issues are not in it exactly once.
    pub(crate) fn truth(&self, root: &Path) -> (u32, u32) {
        let clone = root.with_extension("oracle");
        assert!(git(root, &["clone", "-q", "--shared", ".", clone.to_str().unwrap()]).is_some());
        let tips = git(root, &["log", "-g", "--format=%H", "main"]).unwrap();
        let is_red = |tip: &&str| {
            git(&clone, &["checkout", "-q", "--force", tip]).unwrap();
            let check =
                Command::new("sh").arg("check.sh").current_dir(&clone).env("AT_ONCE", "1").output().unwrap();
            !check.status.success()
        };
        let red = tips.lines().filter(is_red).count();
        git(&clone, &["checkout", "-q", "--force", "origin/main"]).unwrap();
        let mut found: BTreeMap<u32, u32> = BTreeMap::new();
        for entry in fs::read_dir(&clone).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("hot-") || name.starts_with("file-") {
                let text = fs::read_to_string(entry.path()).unwrap();
                text.lines()
                    .filter_map(|line| line.parse().ok())
                    .for_each(|issue| *found.entry(issue).or_default() += 1);
            }
        }
        let lost = (0..self.issues).filter(|issue| found.get(issue) != Some(&1)).count();
        (u32::try_from(red).unwrap(), u32::try_from(lost).unwrap())
    }

    pub(crate) fn outcome(&self, root: &Path, took: Duration, sent_back: u32, waited: Duration) -> Outcome {
        let (red_tips, lost) = self.truth(root);
        let landed = f64::from(self.issues - lost);
        Outcome { per_minute: landed * 60.0 / took.as_secs_f64(), sent_back, waited, red_tips, lost }
    }
}

/// What git says, if it succeeds.
pub(crate) fn git(root: &Path, args: &[&str]) -> Option<String> {
    let out = Command::new("git").current_dir(root).args(args).output().unwrap();
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// A place for one run of a workload.
pub(crate) fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("checkout");
    (dir, root)
}
