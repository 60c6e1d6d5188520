"""What the programs of pages take for granted: the files, the rows and the names that a reader has."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import banister as bn

# Sizes that suit a page and would keep a test waiting, and what only a reader's machines have.
SMALLER = {
    "safety": {"dim=100, rank=2, tasks=100": "dim=10, rank=2, tasks=8"},
    "policies": {"bn.Synthetic()": "bn.Synthetic(dim=10, rank=2, tasks=8)", "trials=20": "trials=2"},
    "your-own": {"trials=20": "trials=2"},
    "online": {'"postgresql://shop@db.example/shops?store=north"': '"north.banister"'},
    "scale": {'address="auto"': "shards=1", "rank=8": "rank=2", ', pool="ray"': ""},
}


def names_for(page: str) -> dict[str, Any]:
    """The names that the page's first program uses without making them; files go to the current folder."""
    made = _MADE.get(page, dict)()
    return {"__name__": page, "bn": bn, "np": np, "pl": pl, **made}


def _rows() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    B, W = rng.standard_normal((6, 2)), rng.standard_normal((2, 12))
    tasks = np.arange(360) % 12
    X = rng.standard_normal((360, 6))
    y = np.einsum("nd,dn->n", X, (B @ W)[:, tasks]) + 0.1 * rng.standard_normal(360)
    return {
        "X": X, "y": y, "tasks": tasks, "X_new": X[:3], "tasks_new": tasks[:3], "X_few": X[:4],
        "y_few": y[:4], "new_labels": np.array([12, 12, 13, 13]),
    }  # fmt: skip


def _packed() -> dict[str, Any]:
    rows = _rows()
    frame = pl.DataFrame(rows["X"], schema=[f"f{j}" for j in range(6)])
    stores = pl.Series("store", [f"s{t}" for t in rows["tasks"]])
    frame.with_columns(stores, pl.Series("revenue", rows["y"])).write_parquet("log-1.parquet")
    return rows


def _logged() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.standard_normal((200, 3)), schema=["f0", "f1", "f2"])
    frame = frame.with_columns(
        pl.Series("store", [f"store-{i % 5}" for i in range(200)]),
        pl.Series("revenue", frame["f0"].to_numpy() + 0.1 * rng.standard_normal(200)),
    )
    frame.write_parquet("logs.parquet")
    return {"A": rng.standard_normal((5, 3))}


def _shop() -> dict[str, Any]:
    rng, n = np.random.default_rng(0), 600
    log = pl.DataFrame(
        {
            "store": [f"store-{i % 20}" for i in range(n)],
            "banner": [("spring", "bundle", "loyalty")[i % 3] for i in range(n)],
            "age": rng.normal(40, 10, n), "basket": rng.gamma(2.0, 10.0, n),
            "device": [("ios", "web")[i % 2] for i in range(n)],
            "region": [("north", "south", None)[i % 3] for i in range(n)],
            "click": rng.integers(0, 2, n),
        }
    )  # fmt: skip
    log.write_parquet("log.parquet")
    catalogue = pl.DataFrame({"item": ["red", "white"], "price": [12.0, 9.0], "brand": ["x", "y"]})
    arms = bn.Arms(["spring", "bundle", "loyalty"], numeric=["age", "basket"], categorical=["device"])
    return {"catalogue": catalogue, "arms": arms}


_MADE = {"estimators": _rows, "scale": _packed, "online": _logged, "features": _shop, "your-own": _shop}
