    -- A state is its word, so that a new one needs no new table. `question`: what the agent wants to know, while it needs
    -- input. `interruption`: stopped or killed. Before, an attempt that had asked something was retrying, and these two were in
    -- its verdict. The profile was a part of the agent's name. `supervisor`: the process that runs the agent now.
    CREATE TABLE attempt_new (
        id           INTEGER PRIMARY KEY,
        scope        INTEGER NOT NULL REFERENCES scope,
        run          TEXT NOT NULL REFERENCES run,
        issue        TEXT NOT NULL,
        agent        TEXT NOT NULL,
        profile      TEXT,
        supervisor   INTEGER REFERENCES process,
        number       INTEGER NOT NULL,
        state        TEXT NOT NULL,
        since        INTEGER NOT NULL,
        started_at   INTEGER NOT NULL,
        ended_at     INTEGER,
        session      TEXT,
        head         TEXT,
        question     TEXT,
        interruption TEXT,
        saved_ref    TEXT,
        verdict      TEXT,
        cost_micros  INTEGER NOT NULL,
        tokens       INTEGER NOT NULL,
        tracked      INTEGER NOT NULL,
        UNIQUE (issue, number)
    ) STRICT;
    INSERT INTO attempt_new (id, scope, run, issue, agent, profile, number, state, since, started_at, ended_at, session, head,
            question, interruption, saved_ref, verdict, cost_micros, tokens, tracked)
        SELECT id, scope, run, issue, agent,
            CASE WHEN substr(agent, -length(suffix)) = suffix THEN substr(agent, 1, length(agent) - length(suffix)) END,
            number,
            CASE
                WHEN state = 4 AND sound ->> '$.question' IS NOT NULL THEN 'needs_input'
                ELSE json_extract('["ready","claimed","running","gating","retrying","done","handed_over"]', '$[' || state || ']')
            END,
            since, started_at, ended_at, session, head,
            CASE state WHEN 4 THEN sound ->> '$.question' END,
            CASE
                WHEN sound ->> '$.interrupted' IS NULL THEN NULL
                WHEN sound ->> '$.interrupted' = 'stopped' THEN 'stopped'
                ELSE 'killed'
            END,
            saved_ref,
            nullif(coalesce(json_remove(sound, '$.question', '$.interrupted'), verdict), '{}'),
            cost_micros, tokens, tracked
        FROM (SELECT *, '-' || issue || '-' || number AS suffix, CASE WHEN json_valid(verdict) THEN verdict END AS sound
            FROM attempt);
    DROP TABLE attempt;
    ALTER TABLE attempt_new RENAME TO attempt;
    CREATE UNIQUE INDEX attempt_live ON attempt (issue) WHERE ended_at IS NULL;

    -- The machine or container by its own id, where it has one.
    ALTER TABLE process ADD COLUMN node TEXT;
