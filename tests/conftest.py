"""Property tests look for new examples at a developer's desk, and repeat the same ones where CI is set."""

import os

import pytest
from hypothesis import settings

from places import BOTH, drop, new_url

settings.register_profile("repeatable", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("repeatable")


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
