    -- An agent that waits until an issue has landed or is given up. `is_parked`: it has no process any more, so that whoever waits
    -- for it waits for that issue, too.
    CREATE TABLE issue_wait (
        scope     INTEGER NOT NULL REFERENCES scope,
        agent     TEXT NOT NULL,
        issue     TEXT NOT NULL,
        since     INTEGER NOT NULL,
        is_parked INTEGER NOT NULL,
        PRIMARY KEY (scope, agent, issue)
    ) STRICT, WITHOUT ROWID;
