"""Property tests look for new examples at a developer's desk, and repeat the same ones where CI is set."""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("repeatable")
