"""One tree of errors, whose members are also the builtin that fits."""

from __future__ import annotations

import inspect
import pickle

import pytest

from banister import errors

KINDS = [k for _, k in inspect.getmembers(errors, inspect.isclass) if k.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", KINDS)
def test_everything_hangs_on_one_of_two_roots(kind):
    assert issubclass(kind, (errors.BanisterError, errors.BanisterWarning))
    assert kind.__doc__


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.InputError, ValueError), (errors.ShapeError, ValueError), (errors.NonFiniteError, ValueError),
        (errors.SettingError, ValueError), (errors.UnknownTaskError, KeyError),
        (errors.UnknownDecisionError, KeyError), (errors.NotFittedError, AttributeError),
        (errors.NotFittedError, ValueError), (errors.DataFileError, OSError),
        (errors.ModelFileError, OSError),
        (errors.ConvergenceWarning, UserWarning),
    ],
)  # fmt: skip
def test_builtin_parents(kind, builtin):
    assert issubclass(kind, builtin)


@pytest.mark.parametrize("kind", [k for k in KINDS if issubclass(k, errors.BanisterError)])
def test_messages_print_as_written_and_travel_between_processes(kind):
    error = pickle.loads(pickle.dumps(kind("Row 3 names task 'z'.")))
    assert str(error) == "Row 3 names task 'z'."
