"""scikit-learn's base classes, as type checkers should see them.

scikit-learn ships no types, so a subclass of its `BaseEstimator` would accept any attribute: `model.ftt(X)`
would pass. Checkers read the classes below, which name what we use; the program runs on the real ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Self

    class BaseEstimator:
        """The part of `sklearn.base.BaseEstimator` that users of our estimators meet."""

        n_features_in_: int

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def set_fit_request(self, *, tasks: bool | str | None) -> Self: ...
        def set_predict_request(self, *, tasks: bool | str | None) -> Self: ...
        def set_score_request(
            self, *, tasks: bool | str | None = ..., sample_weight: bool | str | None = ...
        ) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def __getstate__(self) -> dict[str, Any]: ...

    class RegressorMixin:
        """`sklearn.base.RegressorMixin`."""

    class SklearnNotFittedError(ValueError, AttributeError):
        """`sklearn.exceptions.NotFittedError`."""

    def validate_data(estimator: Any, X: Any, *, skip_check_array: bool, reset: bool = True) -> Any:
        """`sklearn.utils.validation.validate_data`."""

else:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.exceptions import NotFittedError as SklearnNotFittedError
    from sklearn.utils.validation import validate_data

__all__ = ["BaseEstimator", "RegressorMixin", "SklearnNotFittedError", "validate_data"]
