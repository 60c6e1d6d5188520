"""A shop with raw requests, for the tests: stores, banners, ages with gaps, devices, revenue."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import banister as bn

BANNERS = ["spring", "bundle", "loyalty"]


class Shop:
    """Expected revenue is linear in the features of `Arms`, so that a model of them can be right."""

    def __init__(self, stores: int = 8, noise: float = 0.05, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.stores, self.noise = stores, noise
        self.level = 2.0 + 0.3 * self.rng.standard_normal(stores)
        self.taste = self.rng.standard_normal(stores)

    def context(self) -> dict[str, Any]:
        age = None if self.rng.random() < 0.1 else float(self.rng.normal(40, 10))
        return {"age": age, "device": ["ios", "web", "app"][int(self.rng.integers(3))]}

    def worth(self, store: int, context: dict[str, Any], banner: str) -> float:
        young = 0.0 if context["age"] is None else (40 - context["age"]) / 10
        own = {"spring": 0.6 * self.taste[store] * young, "bundle": 0.0, "loyalty": -0.4 * young}[banner]
        return float(self.level[store] + own + 0.2 * (context["device"] == "ios"))

    def earn(self, store: int, context: dict[str, Any], banner: str) -> float:
        return self.worth(store, context, banner) + self.noise * float(self.rng.standard_normal())

    def log(self, n: int, explore: float = 0.5) -> pl.DataFrame:
        """Rows of a policy that shows the bundle, and with probability `explore` any banner."""
        rows = []
        for _ in range(n):
            store, context = int(self.rng.integers(self.stores)), self.context()
            banner = BANNERS[int(self.rng.integers(3))] if self.rng.random() < explore else "bundle"
            chance = explore / 3 + (1 - explore) * (banner == "bundle")
            rows.append(
                {
                    "store": f"store-{store}", **context, "banner": banner, "usual": "bundle",
                    "p": chance, "revenue": self.earn(store, context, banner),
                }
            )  # fmt: skip
        return pl.DataFrame(rows, infer_schema_length=None)


def arms(**options: Any) -> bn.Arms:
    return bn.Arms(BANNERS, numeric=["age"], categorical=["device"], **options)


COLUMNS: dict[str, Any] = {"task": "store", "arm": "banner", "reward": "revenue"}
