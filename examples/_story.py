"""How the stories of this folder are started from a shell."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run(main: Callable[[bool, Path], Any], text: str | None, figure: str) -> None:
    """Read `--quick` and `--figure`, and tell the story."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small version")
    parser.add_argument("--figure", type=Path, default=Path(figure))
    options = parser.parse_args()
    main(options.quick, options.figure)
