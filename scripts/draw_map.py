"""Draw docs/figures/architecture.svg from the import contract in pyproject.toml: a row a layer.

python scripts/draw_map.py
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH, ROW, GAP, LINE = 720, 58, 12, 12


def main() -> None:
    """Write the figure."""
    (ROOT / "docs/figures/architecture.svg").write_text(picture(), encoding="utf-8")


def picture() -> str:
    """The map as SVG: upper rooms may import lower ones, never the reverse."""
    rows = layers()
    parts = [part for number, rooms in enumerate(rows) for part in row(number, rooms)]
    height = len(rows) * (ROW + GAP) + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>\n"])


def layers() -> list[list[str]]:
    """The rooms of each layer, top first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [
        [room.strip().removeprefix("banister.") for room in line.split("|")] for line in contract["layers"]
    ]


def row(number: int, rooms: list[str]) -> list[str]:
    """Boxes of one layer, side by side."""
    y, wide = GAP + number * (ROW + GAP), (WIDTH - GAP) / len(rooms)
    boxes = []
    for place, room in enumerate(rooms):
        x = GAP + place * wide
        middle = x + (wide - GAP) / 2
        boxes += [
            f'<rect x="{x:.1f}" y="{y}" width="{wide - GAP:.1f}" height="{ROW}" rx="6" fill="#e0f2f1" '
            'stroke="#00897b"/>',
            f'<text x="{middle:.1f}" y="{y + 19}" text-anchor="middle" font-weight="bold" font-size="15" '
            f'fill="#00453d">{room}</text>',
        ]
        boxes += [
            f'<text x="{middle:.1f}" y="{y + 35 + LINE * i}" text-anchor="middle" font-size="10" '
            f'fill="#37474f">{line}</text>'
            for i, line in enumerate(purpose(room, int(wide / 5.6)))
        ]
    return boxes


def purpose(room: str, most: int) -> list[str]:
    """The first line of the room's docstring, in two lines of `most` letters."""
    place = ROOT / "src/banister" / room
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    words = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]
    text = words.replace("`", "").replace("&", "&amp;").replace("<", "&lt;")
    lines = textwrap.wrap(text, most)
    return lines if len(lines) <= 2 else [lines[0], lines[1][: most - 2].rsplit(" ", 1)[0] + " …"]


if __name__ == "__main__":
    main()
