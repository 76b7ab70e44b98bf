//! Whether a checkout is in a state in which agents can commit.

use crate::{GitError, Head, Repo};

/// Why no agent's commit can land, and what to type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfit {
    pub why: &'static str,
    pub hint: &'static str,
}

/// What git leaves behind in the middle of something. A rebase comes first: it may leave signs of the others too.
const UNFINISHED: &[(&str, Unfit)] = &[
    (
        "rebase-merge",
        Unfit {
            why: "a rebase is not finished",
            hint: "finish it: git rebase --continue; or take it back: git rebase --abort",
        },
    ),
    (
        "rebase-apply/applying",
        Unfit {
            why: "a series of patches is not applied to its end",
            hint: "finish it: git am --continue; or take it back: git am --abort",
        },
    ),
    (
        "rebase-apply",
        Unfit {
            why: "a rebase is not finished",
            hint: "finish it: git rebase --continue; or take it back: git rebase --abort",
        },
    ),
    (
        "MERGE_HEAD",
        Unfit {
            why: "a merge is not finished",
            hint: "finish it: git merge --continue; or take it back: git merge --abort",
        },
    ),
    (
        "CHERRY_PICK_HEAD",
        Unfit {
            why: "a cherry-pick is not finished",
            hint: "finish it: git cherry-pick --continue; or take it back: git cherry-pick --abort",
        },
    ),
    (
        "REVERT_HEAD",
        Unfit {
            why: "a revert is not finished",
            hint: "finish it: git revert --continue; or take it back: git revert --abort",
        },
    ),
    (
        "BISECT_LOG",
        Unfit {
            why: "a bisection is not finished",
            hint: "end it, and go back to its branch: git bisect reset",
        },
    ),
];

const DETACHED: Unfit = Unfit {
    why: "no branch is checked out (HEAD is detached)",
    hint: "go to a branch: git switch BRANCH; or make one here: git switch -c BRANCH",
};

impl Repo {
    /// What keeps agents from committing in this checkout, if something does.
    pub fn unfit(&self) -> Result<Option<Unfit>, GitError> {
        let unfinished = self.unfinished()?;
        if unfinished.is_some() {
            return Ok(unfinished);
        }
        Ok(matches!(self.head()?, Head::Detached { .. }).then_some(DETACHED))
    }

    /// A merge, or the like, that somebody has begun here: the next commit would be part of it.
    pub fn unfinished(&self) -> Result<Option<Unfit>, GitError> {
        let git_dir = self.git_dir()?;
        let found = UNFINISHED.iter().find(|(sign, _)| git_dir.join(sign).exists());
        Ok(found.map(|(_, unfit)| *unfit))
    }
}
