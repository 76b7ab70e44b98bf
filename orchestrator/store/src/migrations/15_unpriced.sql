    -- Models that an attempt has used and that have no price, as JSON: what it has cost is only known in part.
    ALTER TABLE attempt ADD COLUMN unpriced TEXT NOT NULL DEFAULT '[]';
