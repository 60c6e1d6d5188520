"""The ledger in SQLite: the embedded default. Its own SQL stands here."""
