    -- What each chained log was when it was last written to: its last line, and how many lines before its first were removed for
    -- their age. `name`: its path in mala's directory. The logs belong to the repository, so there is no scope.
    CREATE TABLE chain (
        name      TEXT PRIMARY KEY,
        seq       INTEGER NOT NULL,
        hash      TEXT NOT NULL,
        forgotten INTEGER NOT NULL,
        at        INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
