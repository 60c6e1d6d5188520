"""Safety: the floor, beliefs about tasks, and what they allow. No policy, no ledger, no clock."""
