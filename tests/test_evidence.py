"""Rows that grow: everything is kept, in order, however it came."""

import numpy as np

from banister.safety.evidence import Rows


def test_rows_keep_everything_however_it_was_appended():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    rows = Rows()
    for part in np.split(np.arange(1000), [1, 7, 7, 200, 999]):
        rows.append(X[part], y[part])
    kept = rows.columns()
    assert rows.size == 1000
    np.testing.assert_array_equal(kept[0], X)
    np.testing.assert_array_equal(kept[1], y)
