    -- What `path` is: a file, a pattern or a name. Not known of events that are older than the column.
    ALTER TABLE event ADD COLUMN target INTEGER CHECK (target IN (0, 1, 2));
    UPDATE event SET target = (SELECT kind FROM lock WHERE lock.id = event.lock) WHERE lock IS NOT NULL;
    -- What an agent did besides holding locks.
    CREATE INDEX event_of_agent ON event (scope, agent, seq) WHERE lock IS NULL;

    -- Until when an agent has held a file or a pattern alone, by each name of the file.
    CREATE TABLE tenure (
        scope INTEGER NOT NULL,
        agent TEXT NOT NULL,
        kind  INTEGER NOT NULL CHECK (kind IN (0, 1)),
        path  BLOB NOT NULL,
        fence INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (scope, agent, kind, path)
    ) STRICT, WITHOUT ROWID;
