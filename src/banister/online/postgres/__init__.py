"""The ledger in PostgreSQL: several processes serve one store. Its own SQL stands here."""
