"""The ledger in SQLite: the embedded default, and the only place where SQL stands."""
