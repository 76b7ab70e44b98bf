//! The checks of the gate, by name. Users, logs and JSON see the names; code compares values.

use std::fmt;

use serde::{Serialize, Serializer};

/// One thing that the gate looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckName {
    /// The commit names the issue.
    IssueId,
    /// The commit was made after the issue was claimed.
    NewerThanClaim,
    /// The commit can be reached from a branch.
    OnABranch,
    /// Every committed file was the agent's.
    FilesOwned,
    /// The evidence log can be read and is whole.
    EvidenceLog,
    /// A required command passed.
    Command,
    /// What ran beside others' edits is about this commit.
    ForeignEdits,
    /// The agent left no change of its own uncommitted.
    CleanStatus,
    /// A declared outcome without a commit holds.
    Outcome,
    /// The agent wrote no file that another agent held.
    ForeignWrites,
}

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckSubject {
    /// How one commit was made.
    Commit,
    /// The content that an attempt leaves, however many commits it took.
    Content,
    /// What the agent did, whatever it committed: that nothing was done wrong is no proof that something was done.
    Conduct,
}

impl CheckName {
    pub const ALL: [Self; 10] = [
        Self::IssueId,
        Self::NewerThanClaim,
        Self::OnABranch,
        Self::FilesOwned,
        Self::EvidenceLog,
        Self::Command,
        Self::ForeignEdits,
        Self::CleanStatus,
        Self::Outcome,
        Self::ForeignWrites,
    ];

    /// The name in text and JSON. Stable.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IssueId => "issue-id",
            Self::NewerThanClaim => "newer-than-claim",
            Self::OnABranch => "on-a-branch",
            Self::FilesOwned => "files-owned",
            Self::EvidenceLog => "evidence-log",
            Self::Command => "command",
            Self::ForeignEdits => "foreign-edits",
            Self::CleanStatus => "clean-status",
            Self::Outcome => "outcome",
            Self::ForeignWrites => "foreign-writes",
        }
    }

    pub fn subject(self) -> CheckSubject {
        match self {
            Self::IssueId | Self::NewerThanClaim | Self::OnABranch | Self::FilesOwned => CheckSubject::Commit,
            Self::EvidenceLog | Self::Command | Self::ForeignEdits | Self::CleanStatus | Self::Outcome => {
                CheckSubject::Content
            }
            Self::ForeignWrites => CheckSubject::Conduct,
        }
    }

    /// True for what rests on recorded runs, and is settled anew when the commands are run again.
    pub fn is_about_runs(self) -> bool {
        matches!(self, Self::Command | Self::ForeignEdits | Self::EvidenceLog)
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for CheckName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own() {
        let mut names: Vec<&str> = CheckName::ALL.iter().map(|check| check.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CheckName::ALL.len());
    }
}
