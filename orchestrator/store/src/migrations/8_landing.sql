    -- The landing queue belongs to the repository: all its checkouts share it. `scope` is the one that an entry was offered in.
    -- `pin` is the ref that keeps the candidate, `landed` the commit on the branch that it has become. No entry is ever deleted.
    -- `is_ready`: its work is out of the checkout, so that it can take part in a round.
    CREATE TABLE entry (
        id         INTEGER PRIMARY KEY,
        scope      INTEGER NOT NULL REFERENCES scope,
        branch     TEXT NOT NULL,
        base       TEXT NOT NULL,
        head       TEXT NOT NULL,
        pin        TEXT NOT NULL,
        issue      TEXT,
        agent      TEXT,
        run        TEXT,
        attempt    INTEGER REFERENCES attempt,
        priority   INTEGER NOT NULL,
        state      TEXT NOT NULL,
        reason     TEXT,
        arrived_at INTEGER NOT NULL,
        since      INTEGER NOT NULL,
        rejections INTEGER NOT NULL,
        kills      INTEGER NOT NULL,
        landed     TEXT,
        is_ready   INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX entry_open ON entry (branch, priority, id)
        WHERE state IN ('waiting', 'validating', 'green', 'landing', 'held');
    CREATE UNIQUE INDEX entry_open_attempt ON entry (attempt)
        WHERE attempt IS NOT NULL AND state IN ('waiting', 'validating', 'green', 'landing', 'held');
    CREATE INDEX entry_attempt ON entry (attempt) WHERE attempt IS NOT NULL;
    CREATE INDEX entry_issue ON entry (issue) WHERE issue IS NOT NULL;

    -- A branch that is being moved. The row is there from before anything is touched until everything is in place.
    -- `directory`: the checkout that moves along, as bytes.
    CREATE TABLE landing (
        branch      TEXT PRIMARY KEY,
        from_commit TEXT NOT NULL,
        to_commit   TEXT NOT NULL,
        directory   BLOB,
        scope       INTEGER NOT NULL REFERENCES scope,
        owner       INTEGER NOT NULL REFERENCES process,
        started_at  INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- The commit that each entry of a landing becomes, the lowest first.
    CREATE TABLE landing_entry (
        branch    TEXT NOT NULL REFERENCES landing,
        position  INTEGER NOT NULL,
        entry     INTEGER NOT NULL UNIQUE REFERENCES entry,
        landed_as TEXT NOT NULL,
        PRIMARY KEY (branch, position)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE queue_pause (
        branch TEXT PRIMARY KEY,
        why    TEXT NOT NULL,
        since  INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
