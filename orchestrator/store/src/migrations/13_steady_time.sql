    -- Steady time: milliseconds on a line that goes forward while the machine is awake, and that nobody sets. For each boot, what
    -- has to be added to its uptime. The line begins where the wall clock stood, so what is older than the columns lies on it, too.
    CREATE TABLE boot (
        id            TEXT PRIMARY KEY,
        steady_offset INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    -- From here on `waiter.deadline` and `agent.seen_at` are steady: nobody is shown them.
    ALTER TABLE event ADD COLUMN steady INTEGER;
    ALTER TABLE waiter ADD COLUMN since_steady INTEGER;
    ALTER TABLE landing ADD COLUMN started_steady INTEGER;
    -- Ends that people are shown by the wall clock.
    ALTER TABLE lock ADD COLUMN expires_steady INTEGER;
    ALTER TABLE ask ADD COLUMN due_steady INTEGER;
    ALTER TABLE letter ADD COLUMN ack_due_steady INTEGER;
    -- Order: the event that made the ask, that of an entry's last step, and the newest one when the wait for an issue began.
    ALTER TABLE ask ADD COLUMN made INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE entry ADD COLUMN stepped INTEGER NOT NULL DEFAULT 0;
    DROP INDEX entry_verdict;
    CREATE INDEX entry_verdict ON entry (branch, stepped, id) WHERE state IN ('landed', 'red');
    ALTER TABLE issue_wait ADD COLUMN event INTEGER NOT NULL DEFAULT 0;
