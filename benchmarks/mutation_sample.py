"""Faults that nobody chose: a seeded sample of small changes to expressions and statements.

A comparison is turned, `+` becomes `-`, `and` becomes `or`, a number becomes another one, `not` is left out,
a statement is removed. Texts of errors, types and decorators are left alone: changing them changes no result.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from hashlib import sha256
from pathlib import Path

from mutation import PACKAGE, Mutant
from mutation_tests import ROOT

_OPPOSITE: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.MatMult: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_WIDTH = 80  # letters of a node that its name shows
_LEFT_ALONE = (ast.Raise, ast.JoinedStr, ast.arg, ast.Import, ast.ImportFrom)


def sample(folders: list[str], number: int, seed: int) -> list[Mutant]:
    """So many faults of these folders, all places equally likely.

    Each place is drawn by its own text, so that a change of the code elsewhere leaves the sample as it was.
    """
    files = sorted(file for folder in folders for file in (ROOT / PACKAGE / folder).rglob("*.py"))
    places = [place for file in files for place in _places(file)]
    return sorted(places, key=lambda mutant: sha256(f"{seed} {mutant.title}".encode()).digest())[:number]


def _places(file: Path) -> Iterator[Mutant]:
    source = file.read_text()
    path = file.relative_to(ROOT / PACKAGE).as_posix()
    seen: Counter[str] = Counter()
    for node in _walk(ast.parse(source)):
        changed = _changed(node)
        if changed is not None:
            name = f"{_short(node)} -> {_short(changed)}"
            seen[name] += 1
            again = f" ({seen[name]})" if seen[name] > 1 else ""
            yield Mutant(name + again, path, source, _put(source, node, changed), f"line {node.lineno}")


def _short(node: ast.expr | ast.stmt) -> str:
    return " ".join(ast.unparse(node).split())[:_WIDTH]


def _walk(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Every expression and statement that may be changed."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _LEFT_ALONE):
                continue
            if name in ("annotation", "returns", "decorator_list", "slice") or _is_for_checkers(child):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _walk(child)


def _is_for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _changed(node: ast.expr | ast.stmt) -> ast.expr | ast.stmt | None:
    """The node with a fault; None where there is nothing to change."""
    new = deepcopy(node)
    match new:
        case ast.Compare(ops=[op, *_]) if type(op) in _OPPOSITE:
            new.ops[0] = _OPPOSITE[type(op)]()
        case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
            return None  # a type
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in _OPPOSITE:
            new.op = _OPPOSITE[type(op)]()
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return operand
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(value) | float(value)):
            new.value = value + 1
        case ast.Expr(value=ast.Call()):
            return ast.Pass()
        case ast.IfExp(body=body):
            return body
        case _:
            return None
    return new


def _put(source: str, node: ast.expr | ast.stmt, changed: ast.expr | ast.stmt) -> str:
    """The source with one node written anew."""
    lines = source.encode().splitlines(keepends=True)
    before = sum(len(line) for line in lines[: node.lineno - 1]) + node.col_offset
    after = sum(len(line) for line in lines[: (node.end_lineno or node.lineno) - 1]) + (
        node.end_col_offset or 0
    )
    text = ast.unparse(changed)
    text = f"({text})" if isinstance(changed, ast.expr) else text
    return (source.encode()[:before] + text.encode() + source.encode()[after:]).decode()
