    CREATE TABLE scope (
        id   INTEGER PRIMARY KEY,
        root BLOB NOT NULL UNIQUE
    ) STRICT;

    CREATE TABLE process (
        id         INTEGER PRIMARY KEY,
        pid        INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        boot_id    TEXT NOT NULL,
        host       TEXT NOT NULL,
        UNIQUE (pid, start_time, boot_id, host)
    ) STRICT;

    CREATE TABLE agent (
        scope      INTEGER NOT NULL REFERENCES scope,
        name       TEXT NOT NULL,
        root       INTEGER NOT NULL REFERENCES process,
        profile    TEXT,
        issue      TEXT,
        run        TEXT,
        supervised INTEGER NOT NULL,
        since      INTEGER NOT NULL,
        PRIMARY KEY (scope, name)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE lock (
        scope       INTEGER NOT NULL REFERENCES scope,
        kind        INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),
        path        BLOB NOT NULL,
        agent       TEXT NOT NULL,
        id          TEXT NOT NULL UNIQUE,
        mode        INTEGER NOT NULL CHECK (mode IN (1, 2)),
        issue       TEXT,
        run         TEXT,
        owner       INTEGER NOT NULL REFERENCES process,
        supervised  INTEGER NOT NULL,
        fence       INTEGER NOT NULL,
        acquired_at INTEGER NOT NULL,
        ttl_ms      INTEGER NOT NULL CHECK (ttl_ms > 0),
        expires_at  INTEGER NOT NULL,
        reason      TEXT,
        PRIMARY KEY (scope, kind, path, agent)
    ) STRICT, WITHOUT ROWID;

    -- Other names of hard-linked files that are held.
    CREATE TABLE alias (
        scope INTEGER NOT NULL,
        path  BLOB NOT NULL,
        lock  TEXT NOT NULL,
        PRIMARY KEY (scope, path, lock)
    ) STRICT, WITHOUT ROWID;

    -- The queue: `seq` is the order of arrival. A granted waiter stays until it has learned of its luck.
    CREATE TABLE waiter (
        seq        INTEGER PRIMARY KEY,
        id         TEXT NOT NULL UNIQUE,
        scope      INTEGER NOT NULL REFERENCES scope,
        agent      TEXT NOT NULL,
        issue      TEXT,
        run        TEXT,
        owner      INTEGER NOT NULL REFERENCES process,
        supervised INTEGER NOT NULL,
        waiting    INTEGER NOT NULL REFERENCES process,
        since      INTEGER NOT NULL,
        deadline   INTEGER NOT NULL,
        ttl_ms     INTEGER NOT NULL CHECK (ttl_ms > 0),
        reason     TEXT,
        watches    TEXT,
        granted_at INTEGER
    ) STRICT;

    CREATE TABLE wanted (
        waiter   INTEGER NOT NULL REFERENCES waiter,
        kind     INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),
        path     BLOB NOT NULL,
        mode     INTEGER NOT NULL CHECK (mode IN (1, 2)),
        alias_of BLOB,
        PRIMARY KEY (waiter, kind, path)
    ) STRICT, WITHOUT ROWID;

    -- The newest row is never deleted, so `seq` only grows; a lock's fence is the `seq` of its event.
    CREATE TABLE event (
        seq    INTEGER PRIMARY KEY,
        at     INTEGER NOT NULL,
        scope  INTEGER NOT NULL REFERENCES scope,
        kind   TEXT NOT NULL,
        agent  TEXT,
        issue  TEXT,
        run    TEXT,
        lock   TEXT,
        path   BLOB,
        detail TEXT NOT NULL
    ) STRICT;
