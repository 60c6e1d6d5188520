"""Every exception and warning of the package, in one tree.

```
BanisterError
├── InputError (ValueError)          values, shapes or settings that cannot be used
│   ├── ShapeError                   lengths or dimensions that disagree
│   ├── NonFiniteError               NaN, infinity, or a number too large for a float
│   └── SettingError                 an option outside its domain (alpha, rank, ...)
├── UnknownTaskError (KeyError)      a task the model has never seen
├── UnknownDecisionError (KeyError)  a decision id the ledger does not hold
├── NotFittedError (ValueError, AttributeError)
├── StoreError (OSError)             a store that must not be used from here any more
├── DataFileError (ValueError, OSError)   a file that is missing, altered or unreadable
├── ModelFileError (ValueError, OSError)  a saved model that cannot be loaded
├── MissingExtraError (ImportError)  a library of an extra that is not installed
├── FitError (RuntimeError)          rows of a store that could not be fitted
├── ServiceError (OSError)           a request that a service refuses, or does not answer
└── PoolError (RuntimeError)         workers that cannot be had, or do not answer
BanisterWarning (UserWarning)
├── ConvergenceWarning               a fit that did not reach its stopping rule
├── DataWarning                      data that can be used but not trusted everywhere
└── CompileNotice                    the kernels were compiled, which took a while, once
```

Each message says what was wrong, where it stood (task, row, column) and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType

_MOST_LISTED = 50  # names in a message: as many as can be read at a glance


class BanisterError(Exception):
    """Root of every error the package raises on purpose."""


class InputError(BanisterError, ValueError):
    """Values, shapes or settings that cannot be used."""


class ShapeError(InputError):
    """Lengths or dimensions that disagree."""


class NonFiniteError(InputError):
    """NaN, infinity, or a number too large for the float type in use."""


class SettingError(InputError):
    """An option outside its domain."""


class _KeyedError(BanisterError, KeyError):
    """A `KeyError` that prints its message instead of the message's repr."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnknownTaskError(_KeyedError):
    """A task the model has never seen."""


class UnknownDecisionError(_KeyedError):
    """A decision id the ledger does not hold."""


class NotFittedError(BanisterError, ValueError, AttributeError):
    """A result was asked of a model that has not been fitted."""


class StoreError(BanisterError, OSError):
    """A store that must not be used any more: another process, a lost lock, a file gone or replaced."""


class DataFileError(BanisterError, ValueError, OSError):
    """A data file that is missing, altered or unreadable."""


class ModelFileError(BanisterError, ValueError, OSError):
    """A saved model that cannot be loaded."""


class MissingExtraError(BanisterError, ImportError):
    """A library that only an extra brings is not installed."""

    @classmethod
    def of(cls, library: str, extra: str) -> MissingExtraError:
        """The error that says how to get the extra."""
        return cls(
            f"This needs {library}, which is not installed; get it with: pip install 'banister[{extra}]'."
        )


class FitError(BanisterError, RuntimeError):
    """Rows of a store that could not be fitted; the last model serves on."""


class ServiceError(BanisterError, OSError):
    """A request that a service refuses, or does not answer.

    Attributes:
        status: of the HTTP response; 0 if there was none.
        headers: more headers of the response.
    """

    status: int = 0
    headers: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, status: int, detail: str, headers: dict[str, str] | None = None) -> ServiceError:
        """The error of a response."""
        error = cls(detail)
        error.status, error.headers = status, headers or {}
        return error


class PoolError(BanisterError, RuntimeError):
    """Workers of a pool that cannot be had, or do not answer."""


class BanisterWarning(UserWarning):
    """Root of every warning the package gives."""


class ConvergenceWarning(BanisterWarning):
    """A fit that did not reach its stopping rule."""


class DataWarning(BanisterWarning):
    """Data that can be used, but not trusted everywhere."""


class CompileNotice(BanisterWarning):
    """The kernels were compiled, which took a while; it happens once per installation."""


def listed(names: Sequence[str], wanted: str) -> str:
    """All names there are; of a great many, those most like the one wanted, and how many others there are.

    Examples:
        >>> listed(["store", "age"], "stor")
        'store, age'
    """
    if len(names) <= _MOST_LISTED:
        return ", ".join(names)
    near = get_close_matches(wanted, names, n=_MOST_LISTED, cutoff=0.0)
    return f"{', '.join(near)} and {len(names) - len(near)} others"
