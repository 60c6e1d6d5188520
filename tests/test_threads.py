"""Linear algebra by one thread: while any block asks for it, and as it was afterwards."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from banister.learner import journal
from banister.learner.memory import Memory
from banister.solver.threads import one_thread


def threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two():
    with threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this linear algebra has one thread only")
        yield


def test_blocks_that_overlap_keep_it_until_the_last_ends(two):
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == {2}


def test_an_error_within_puts_it_back(two):
    with pytest.raises(ValueError, match="within"), one_thread():
        raise ValueError("within")
    assert threads() == {2}


def test_rows_are_filed_by_one_thread(two, monkeypatch):
    monkeypatch.setattr(journal, "_FIRST", 8)
    seen, memory = [], Memory(2)
    monkeypatch.setattr(journal._File, "append", lambda *_: seen.append(threads()))
    nothing, numbers = np.zeros(8), np.arange(8)
    memory.labels.extend(numbers % 2, np.ones((8, 2)), nothing, nothing, numbers)
    assert seen == [{1}, {1}]
    assert threads() == {2}
