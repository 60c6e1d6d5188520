"""The ledger in PostgreSQL: several processes serve one store. All of its SQL stands here."""
