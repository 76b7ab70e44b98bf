    -- The event by which a hold ended: what comes before what is a matter of event numbers, and `until` is only for people.
    ALTER TABLE tenure ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX event_at ON event (at);
    UPDATE tenure SET ended = max(fence, coalesce(
        (SELECT seq FROM event WHERE at <= tenure.until ORDER BY at DESC, seq DESC LIMIT 1), 0));
    DROP INDEX event_at;
    -- The event with which the agent became known.
    ALTER TABLE agent ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;
    UPDATE agent SET joined = coalesce((SELECT max(seq) FROM event
        WHERE event.scope = agent.scope AND event.agent = agent.name AND lock IS NULL AND kind = 'agent.joined'), 0);
    CREATE INDEX tenure_of_path ON tenure (scope, path);

    -- The files that an entry changes on its branch, written down before the branch moves, and the event that says it has.
    CREATE TABLE entry_path (
        path  BLOB NOT NULL,
        entry INTEGER NOT NULL REFERENCES entry,
        PRIMARY KEY (path, entry)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX entry_path_of_entry ON entry_path (entry);
    ALTER TABLE entry ADD COLUMN landed_event INTEGER;
