"""Property tests look for new examples at a developer's desk, and repeat the same ones where CI is set."""

import os

import pytest
from hypothesis import HealthCheck, settings

from places import BOTH, drop, new_url

# No test measures time: on a busy machine a deadline would fail tests of correct code.
_UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("untimed", **_UNTIMED)
settings.register_profile("repeatable", derandomize=True, **_UNTIMED)
settings.load_profile("repeatable" if os.environ.get("CI") else "untimed")


@pytest.fixture(params=BOTH)
def kind(request):
    """Files, and a database."""
    return request.param


def _place(kind, path):
    if kind == "files":
        yield str(path)
        return
    url = new_url()
    yield url
    drop(url)


@pytest.fixture
def place(kind, tmp_path):
    """Where a store may be made: a path, and the URL of a database."""
    yield from _place(kind, tmp_path / "store.banister")


@pytest.fixture
def copy_place(kind, tmp_path):
    """Another place of the same kind."""
    yield from _place(kind, tmp_path / "copy.banister")
