"""SQL that both databases understand in the same words."""
