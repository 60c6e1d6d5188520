"""A hook of the documentation's build: a public name without an entry in the reference fails it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def on_env(env: Any, config: Any, files: Any) -> None:
    """Compare the public names with the reference's entries, before pages are written."""
    missing = undocumented(Path(config["docs_dir"]) / "reference")
    if missing:
        raise SystemExit(f"docs/reference has no entry for: {', '.join(missing)}.")


def undocumented(folder: Path) -> list[str]:
    """Public names that no page of the folder documents."""
    import banister

    entries = set()
    for page in folder.glob("*.md"):
        entries |= set(re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.M))
    homes = {name: f"{module}.{name}" for name, module in banister._HOME.items()}
    return sorted(name for name, home in homes.items() if home not in entries)
