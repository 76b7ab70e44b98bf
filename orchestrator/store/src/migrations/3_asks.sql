    -- When the agent last asked for something or was otherwise seen to be active.
    ALTER TABLE agent ADD COLUMN seen_at INTEGER NOT NULL DEFAULT 0;

    -- States: 0 open, 1 deferred, 2 released, 3 taken, 4 moot, 5 cancelled. `aliases`: paths, each ended by a zero byte.
    CREATE TABLE ask (
        id           TEXT PRIMARY KEY,
        scope        INTEGER NOT NULL REFERENCES scope,
        kind         INTEGER NOT NULL CHECK (kind IN (0, 1)),
        path         BLOB NOT NULL,
        mode         INTEGER NOT NULL CHECK (mode IN (1, 2)),
        aliases      BLOB NOT NULL,
        ttl_ms       INTEGER NOT NULL CHECK (ttl_ms > 0),
        lock         TEXT NOT NULL,
        fence        INTEGER NOT NULL,
        asker        TEXT NOT NULL,
        holder       TEXT NOT NULL,
        why          TEXT NOT NULL,
        urgent       INTEGER NOT NULL,
        state        INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
        created_at   INTEGER NOT NULL,
        due_at       INTEGER NOT NULL,
        eta          INTEGER,
        deferrals    INTEGER NOT NULL,
        answered_at  INTEGER,
        escalated_at INTEGER,
        ended_by     TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX ask_pending ON ask (scope, lock) WHERE state < 2;

    -- What an agent has not heard yet. Kinds: 0 an ask about its lock, 1 its own ask, 2 a message, 3 a refused write.
    CREATE TABLE notice (
        scope   INTEGER NOT NULL,
        agent   TEXT NOT NULL,
        kind    INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
        subject BLOB NOT NULL,
        event   INTEGER NOT NULL,
        times   INTEGER NOT NULL,
        PRIMARY KEY (scope, agent, kind, subject)
    ) STRICT, WITHOUT ROWID;
