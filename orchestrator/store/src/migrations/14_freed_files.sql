    -- `frees_files`: the files of an entry are free although it has not landed yet.
    ALTER TABLE entry ADD COLUMN frees_files INTEGER NOT NULL DEFAULT 0;
    -- `is_leaving`: the files of an attempt are on their way to what the branch has. A landing waits for them meanwhile.
    ALTER TABLE attempt ADD COLUMN is_leaving INTEGER NOT NULL DEFAULT 0;
    -- What the branch held in a file when its holder took it, for files of a checkout that a landing has gone past since. Without a
    -- mode there was no such file.
    CREATE TABLE file_base (
        scope INTEGER NOT NULL REFERENCES scope,
        path  BLOB NOT NULL,
        mode  TEXT,
        oid   TEXT,
        PRIMARY KEY (scope, path)
    ) STRICT, WITHOUT ROWID;
