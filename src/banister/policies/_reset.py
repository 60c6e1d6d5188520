"""What a policy says when it is asked before a trial has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from banister.errors import NotFittedError

_PUBLIC = ("n_tasks", "rng", "theta", "block")  # set by `reset`, beside the private ones


class NeedsReset:
    """A policy whose memory begins with `reset`: used earlier, it says so instead of missing an attribute."""

    if not TYPE_CHECKING:  # a checker that saw this would let every misspelt name pass

        def __getattr__(self, name):
            if name.startswith("__") or not (name.startswith("_") or name in _PUBLIC):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise NotFittedError(
                f"This {type(self).__name__} has not begun a trial; call reset(n_tasks, rng) first, or let "
                "banister.simulate do it."
            )
