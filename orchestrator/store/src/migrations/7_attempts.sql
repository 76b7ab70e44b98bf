    -- A state is its word, so that a new one needs no new table. Before, states were numbers, and an attempt that had asked
    -- something was retrying, with the question in its verdict.
    CREATE TABLE attempt_new (
        id          INTEGER PRIMARY KEY,
        scope       INTEGER NOT NULL REFERENCES scope,
        run         TEXT NOT NULL REFERENCES run,
        issue       TEXT NOT NULL,
        agent       TEXT NOT NULL,
        number      INTEGER NOT NULL,
        state       TEXT NOT NULL,
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
    INSERT INTO attempt_new
        SELECT id, scope, run, issue, agent, number,
            CASE
                WHEN state = 4 AND CASE WHEN json_valid(verdict) THEN verdict ->> '$.question' END IS NOT NULL
                    THEN 'needs_input'
                ELSE json_extract('["ready","claimed","running","gating","retrying","done","handed_over"]', '$[' || state || ']')
            END,
            since, started_at, ended_at, session, head, saved_ref, verdict, cost_micros, tokens, tracked
        FROM attempt;
    DROP TABLE attempt;
    ALTER TABLE attempt_new RENAME TO attempt;
    CREATE UNIQUE INDEX attempt_live ON attempt (issue) WHERE ended_at IS NULL;
