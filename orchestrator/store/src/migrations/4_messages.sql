    -- Writers and readers: 0 an agent, 1 a person. Importance: 0 low to 3 urgent.
    CREATE TABLE message (
        seq        INTEGER PRIMARY KEY,
        scope      INTEGER NOT NULL REFERENCES scope,
        at         INTEGER NOT NULL,
        thread     TEXT NOT NULL,
        from_kind  INTEGER NOT NULL CHECK (from_kind IN (0, 1)),
        from_name  TEXT NOT NULL,
        importance INTEGER NOT NULL CHECK (importance BETWEEN 0 AND 3),
        body       TEXT NOT NULL,
        broadcast  INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX message_thread ON message (scope, thread, seq);
    CREATE INDEX message_broadcast ON message (scope, from_kind, from_name, at) WHERE broadcast = 1;

    -- One copy of a message for each recipient.
    CREATE TABLE letter (
        scope    INTEGER NOT NULL,
        to_kind  INTEGER NOT NULL CHECK (to_kind IN (0, 1)),
        to_name  TEXT NOT NULL,
        message  INTEGER NOT NULL REFERENCES message,
        read_at  INTEGER,
        ack_due  INTEGER,
        acked_at INTEGER,
        PRIMARY KEY (scope, to_kind, to_name, message)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX letter_unread ON letter (scope, to_kind, to_name, message) WHERE read_at IS NULL;
    CREATE INDEX letter_unacked ON letter (scope, ack_due) WHERE ack_due IS NOT NULL AND acked_at IS NULL;
