"""What runs in a process of its own: some of a pool's blocks, and answers about them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from banister.data import Float, TaskData
from banister.solver.block import Block
from banister.solver.folder import Folder
from banister.solver.point import Point
from banister.solver.rows import folder_block, memory_block

Span = tuple[int, int, int]  # a block's first task, the one after its last, and its first row


class Worker:
    """Some blocks of a pool's tasks, from a packed folder or from rows sent along.

    It keeps nothing that a question does not bring, but for workspaces: a worker that was lost and started
    again answers the next question as the first one would have.
    """

    def __init__(self, spans: Sequence[Span], source: str | list[TaskData]) -> None:
        if isinstance(source, str):
            folder = Folder(source)
            self._blocks = [folder_block(folder, first, last) for first, last, _ in spans]
        else:
            self._blocks = [memory_block(data, *span) for data, span in zip(source, spans, strict=True)]

    def process(self) -> int:
        """The id of the process, once it is ready."""
        return os.getpid()

    def ask(self, method: str, args: tuple[Any, ...], weights: Float | None) -> list[Any]:
        """The answer of every block, in order; `weights` belong to the point among the arguments."""
        if weights is not None:
            args = tuple(replace(a, weights=weights) if isinstance(a, Point) else a for a in args)
        return [_answer(block, method, args) for block in self._blocks]


def _answer(block: Block, method: str, args: tuple[Any, ...]) -> Any:
    return getattr(block, method)(*args)
