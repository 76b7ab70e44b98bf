    -- Issues belong to the repository: all its checkouts share them. `files` is a JSON list of texts. `source` tells what an
    -- imported issue looked like where it came from.
    CREATE TABLE issue (
        id            TEXT PRIMARY KEY,
        title         TEXT NOT NULL,
        description   TEXT NOT NULL,
        design        TEXT NOT NULL,
        acceptance    TEXT NOT NULL,
        status        TEXT NOT NULL,
        priority      INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 4),
        kind          TEXT NOT NULL,
        parent        TEXT,
        assignee      TEXT,
        files         TEXT NOT NULL,
        prefix        TEXT,
        number        INTEGER,
        created_at    INTEGER NOT NULL,
        updated_at    INTEGER NOT NULL,
        closed_at     INTEGER,
        source        BLOB,
        source_status TEXT
    ) STRICT;
    CREATE INDEX issue_open ON issue (priority, created_at, id) WHERE status = 'open' AND kind <> 'epic';
    CREATE INDEX issue_number ON issue (prefix, number) WHERE number IS NOT NULL;

    CREATE TABLE issue_label (
        issue TEXT NOT NULL,
        label TEXT NOT NULL,
        PRIMARY KEY (issue, label)
    ) STRICT, WITHOUT ROWID;

    -- `issue` cannot begin before `other` is closed.
    CREATE TABLE dependency (
        issue TEXT NOT NULL,
        other TEXT NOT NULL,
        PRIMARY KEY (issue, other)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE note (
        issue       TEXT NOT NULL,
        seq         INTEGER NOT NULL,
        at          INTEGER NOT NULL,
        author_kind INTEGER NOT NULL CHECK (author_kind IN (0, 1)),
        author      TEXT NOT NULL,
        text        TEXT NOT NULL,
        attempt     INTEGER,
        PRIMARY KEY (issue, seq)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE run (
        id         TEXT PRIMARY KEY,
        scope      INTEGER NOT NULL REFERENCES scope,
        owner      INTEGER NOT NULL REFERENCES process,
        started_at INTEGER NOT NULL,
        ended_at   INTEGER,
        options    TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX run_live ON run (scope) WHERE ended_at IS NULL;

    -- States: 0 ready, 1 claimed, 2 running, 3 gating, 4 retrying, 5 done, 6 handed over. `tracked`: the issue is one of the
    -- table above, and not of another tracker.
    CREATE TABLE attempt (
        id          INTEGER PRIMARY KEY,
        scope       INTEGER NOT NULL REFERENCES scope,
        run         TEXT NOT NULL REFERENCES run,
        issue       TEXT NOT NULL,
        agent       TEXT NOT NULL,
        number      INTEGER NOT NULL,
        state       INTEGER NOT NULL CHECK (state BETWEEN 0 AND 6),
        since       INTEGER NOT NULL,
        started_at  INTEGER NOT NULL,
        ended_at    INTEGER,
        session     TEXT,
        head        TEXT,
        saved_ref   TEXT,
        verdict     TEXT,
        cost_micros INTEGER NOT NULL,
        tokens      INTEGER NOT NULL,
        tracked     INTEGER NOT NULL,
        UNIQUE (issue, number)
    ) STRICT;
    CREATE UNIQUE INDEX attempt_live ON attempt (issue) WHERE ended_at IS NULL;
