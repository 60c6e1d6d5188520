"""The paper's study as data: settings, competitors, panels, claims with verdicts, and the planner."""
