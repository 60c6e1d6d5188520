"""A bandit for applications: `SafeBandit`, its ledger, its audit, logs and dry runs."""
