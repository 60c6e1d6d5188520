"""Features of either kind from the JSON that a store keeps."""

from __future__ import annotations

import json

from banister.errors import ModelFileError
from banister.features.arms import Arms
from banister.features.base import Features
from banister.features.items import Items

_KINDS: dict[str, type[Arms] | type[Items]] = {cls.kind: cls for cls in (Arms, Items)}


def load_features(text: str) -> Features:
    """What `to_json` of `Arms` or `Items` wrote."""
    try:
        kind = json.loads(text)["kind"]
        cls = _KINDS[kind]
    except (TypeError, ValueError, KeyError):
        raise ModelFileError(
            f"This is no JSON of features of a known kind ({', '.join(_KINDS)}); restore it from a copy."
        ) from None
    return cls.from_json(text)
