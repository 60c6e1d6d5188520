"""Schedules: the paper's numbers, and what every schedule must satisfy."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banister.errors import SettingError
from banister.policies.schedules import (
    DoublingSchedule,
    EqualSchedule,
    GrowthSchedule,
    PaperSchedule,
    lengths,
)

schedules = st.one_of(
    st.builds(PaperSchedule, st.integers(1, 5000)),
    st.builds(EqualSchedule, st.integers(1, 100)),
    st.builds(DoublingSchedule, st.integers(1, 100)),
    st.builds(GrowthSchedule, st.integers(1, 30), st.floats(0.01, 3.0)),
)


def test_the_papers_schedule_by_hand():
    assert lengths(PaperSchedule(200), 200) == [14, 39, 147]
    assert PaperSchedule(10_000).ends == [100, 1000, 3162, 10_000]  # M = ⌈log2 13.29⌉ = 4
    assert PaperSchedule(256).ends == [16, 64, 256]
    assert PaperSchedule(16).ends == [4, 16]
    assert PaperSchedule(4).ends == [4]
    assert PaperSchedule(1).ends == [1]


@given(st.integers(3, 10**6))
def test_the_papers_number_of_epochs(horizon):
    ends = PaperSchedule(horizon).ends
    assert len(ends) == math.ceil(math.log2(math.log2(horizon)))
    assert ends == sorted(set(ends))


def test_other_schedules_by_hand():
    assert lengths(EqualSchedule(50), 120) == [50, 50, 20]
    assert lengths(DoublingSchedule(10), 150) == [10, 20, 40, 80]
    assert lengths(GrowthSchedule(first=5, share=0.25), 20) == [5, 2, 2, 3, 3, 4, 1]


@given(schedules, st.integers(1, 2000))
def test_epochs_cover_the_horizon(schedule, horizon):
    parts = lengths(schedule, horizon)
    assert sum(parts) == horizon
    assert min(parts) >= 1


@given(schedules, st.integers(0, 10**5))
def test_the_next_end_lies_ahead(schedule, done):
    assert schedule.next(done) > done


@given(st.integers(1, 20), st.floats(0.05, 1.0), st.integers(1, 10**5))
def test_growth_waits_for_its_share(first, share, done):
    ahead = GrowthSchedule(first, share).next(done)
    assert ahead >= done * (1 + share) - 1e-6
    assert ahead <= max(first, done * (1 + share) + 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PaperSchedule(0), "horizon=0"),
        (lambda: EqualSchedule(2.5), "rounds=2.5"),
        (lambda: DoublingSchedule(True), "first=True"),
        (lambda: GrowthSchedule(share=0.0), "share=0.0"),
        (lambda: lengths(EqualSchedule(), 0), "horizon=0"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(SettingError, match=message):
        make()
