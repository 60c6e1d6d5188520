"""scikit-learn's base class, as type checkers should see it.

scikit-learn ships no types, so a subclass of its `BaseEstimator` would accept any attribute: `model.ftt(X)`
would pass. Checkers read the class below, which names what we use; the program runs on the real one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Self

    class BaseEstimator:
        """The part of `sklearn.base.BaseEstimator` that users of our estimators meet."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __sklearn_tags__(self) -> Any: ...

    class RegressorMixin:
        """The part of `sklearn.base.RegressorMixin` that users of our estimators meet."""

else:
    from sklearn.base import BaseEstimator, RegressorMixin

__all__ = ["BaseEstimator", "RegressorMixin"]
