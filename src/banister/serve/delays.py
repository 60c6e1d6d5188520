"""How long rewards take to come: counted for whole batches at once, read by Prometheus as a histogram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from banister.data import Float, Int

_NAME = "banister_reward_delay_seconds"
_ABOUT = "From a decision to its reward, for decisions of this process"
_ENDS = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0)
_REMEMBERED = 1 << 17  # decisions whose time is known; ids count up, so that the oldest makes room


class Delays(Collector):
    """Times of the latest decisions, and the delays of their rewards.

    Examples:
        >>> delays = Delays()
        >>> delays.decided([7, 8, 9], 100.0)
        >>> delays.rewarded([7, 9, 5, 7], 100.5)
        >>> delays.count, delays.total
        (2, 1.0)
    """

    def __init__(self) -> None:
        self._ids: Int = np.zeros(_REMEMBERED, dtype=np.int64)
        self._made: Float = np.zeros(_REMEMBERED)
        self._counts: Int = np.zeros(len(_ENDS) + 1, dtype=np.int64)
        self.total = 0.0

    @property
    def count(self) -> int:
        """Rewards that were counted."""
        return int(self._counts.sum())

    def decided(self, ids: Sequence[int], now: float) -> None:
        """Decisions that are made now."""
        numbers = np.array(ids, dtype=np.int64)
        place = numbers % _REMEMBERED
        self._ids[place], self._made[place] = numbers, now

    def rewarded(self, ids: Sequence[int], now: float) -> None:
        """Rewards that come now; those of decisions made elsewhere or long ago are passed over."""
        numbers = np.unique(np.array(ids, dtype=np.int64))
        place = numbers % _REMEMBERED
        place = place[self._ids[place] == numbers]
        delay = now - self._made[place]
        self._ids[place] = 0
        self._counts += np.bincount(np.searchsorted(_ENDS, delay), minlength=len(self._counts))
        self.total += float(delay.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """As Prometheus reads it: each bucket counts those before it too."""
        ends = [*map(floatToGoString, _ENDS), "+Inf"]
        buckets = [(end, float(n)) for end, n in zip(ends, np.cumsum(self._counts).tolist(), strict=True)]
        yield HistogramMetricFamily(_NAME, _ABOUT, buckets=buckets, sum_value=self.total)
