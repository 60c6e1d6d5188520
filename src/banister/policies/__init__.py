"""Who decides: the paper's policies, its rivals, and the certified one, under one contract."""
