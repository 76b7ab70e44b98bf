    -- `overtaken`: how often the branch was moved by other hands while the entry was validated.
    ALTER TABLE entry ADD COLUMN overtaken INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX entry_verdict ON entry (branch, since) WHERE state IN ('landed', 'red');

    -- What has landed on a branch since it was last green in an emptied slot. `since_commit` is the commit that was, or the one
    -- that mala first landed on.
    CREATE TABLE unaudited (
        branch       TEXT PRIMARY KEY,
        since_commit TEXT NOT NULL,
        last_commit  TEXT NOT NULL,
        landings     INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
