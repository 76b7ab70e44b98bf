    -- Which conversation of its process a client's session is. Some clients have several in one process.
    ALTER TABLE agent ADD COLUMN conversation TEXT;
